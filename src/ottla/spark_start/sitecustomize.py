"""Loaded by every Python process that Spark starts for `ottla.spark.session()`, before anything else.

Spark puts its own `pyspark.zip` first on the path of these processes. There is no bytecode in it: each of them compiles
a megabyte of source when it starts, which takes 0.9 s of its 1.1, and the first batch of a query waits for four of them
in a row. Where the zip is a part of the installed package, the package itself is used instead: the same files, compiled
when they were installed. Nothing is imported from Ottla here: this must stay quick.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def use_installed(path: list[str]) -> None:
    """Take out of `path` the zips that come with a pyspark that is installed, as is what they hold."""
    for entry in list(path):
        directory, name = os.path.split(entry)
        site_packages, inside = os.path.split(os.path.dirname(os.path.dirname(directory)))  # …/pyspark/python/lib
        module = name.removesuffix(".zip").partition("-")[0]
        is_spark = inside == "pyspark" and module in ("pyspark", "py4j") and name.endswith(".zip")
        if is_spark and site_packages in path and os.path.isdir(os.path.join(site_packages, module)):
            path.remove(entry)


def load_next(path: list[str]) -> None:
    """The module of this name that would have been loaded if this one were not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in path if os.path.abspath(entry) != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    use_installed(sys.path)
    load_next(sys.path)
