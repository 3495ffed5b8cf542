"""A directory with a pipeline in it: its description, in the form of `spark-pipelines`, and where its tables are.

    spark-pipeline.yaml   the description; made once, then yours to change
    spark.conf            what must be known when Spark starts, and can't be in the description; likewise
    definitions.py        what is in the pipeline; likewise
    tables/               one directory per table, Parquet by date
    checkpoints/          how far each flow is, and its state
    python                what Spark starts for Python
    metastore/            which tables there are (Derby, for one process at a time)

The metastore is why a second run finds the tables of the first; without it Spark only finds their files, and refuses.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

from ottla.errors import OttlaError
from ottla.pipelines.settings import PipelineSettings

__all__ = ["Project", "ProjectError"]

SPEC: Final = "spark-pipeline.yaml"
DEFINITIONS: Final = "definitions.py"
CONF: Final = "spark.conf"
DEFINITIONS_TEXT: Final = '''"""What is in the pipeline. `spark` is put here by Spark."""

from ottla.pipelines.definitions import define

define(spark)  # noqa: F821
'''

PYTHON: Final = "python"
PYTHON_TEXT: Final = """#!/bin/sh
# Spark puts its own zip first on Python's path, and what is in a zip is compiled anew by every process. What is
# installed is not: a worker starts with 0.3 s of CPU instead of 1.1. Spark gives up on those that take ten seconds.
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=${{kept:+$kept:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec "{executable}" "$@"
"""


class ProjectError(OttlaError):
    """The directory is not that of a pipeline that can be run."""


@dataclass(frozen=True, slots=True)
class Project:
    directory: Path

    @classmethod
    def at(cls, directory: Path, settings: PipelineSettings) -> Self:
        """The one that is there, with its own settings if it has a description; or a new one."""
        project = cls(directory.resolve())
        project.directory.mkdir(parents=True, exist_ok=True)
        if not project.spec.exists():
            _replace(project.directory / DEFINITIONS, DEFINITIONS_TEXT)
            _replace(project.directory / CONF, "".join(f"{line}\n" for line in project._static()))
            _replace(project.spec, yaml.safe_dump(project._description(settings), sort_keys=False))
        _replace(project.python, PYTHON_TEXT.format(executable=sys.executable), mode=0o755)
        return project

    @property
    def spec(self) -> Path:
        return self.directory / SPEC

    @property
    def python(self) -> Path:
        """Made anew by every run, for the Python that it is run with."""
        return self.directory / PYTHON

    def table(self, name: str) -> Path:
        return self.directory / "tables" / name

    def read(self) -> dict[str, Any]:
        try:
            described = yaml.safe_load(self.spec.read_text())
        except yaml.YAMLError as error:
            raise ProjectError(f"{self.spec} is not YAML: {error}") from error
        if not isinstance(described, dict) or not isinstance(described.get("configuration"), dict):
            raise ProjectError(f"{self.spec} is not the description of a pipeline")
        return described

    @property
    def settings(self) -> PipelineSettings:
        configuration = self.read()["configuration"]
        return PipelineSettings.from_conf(configuration.get)

    def _description(self, settings: PipelineSettings) -> dict[str, Any]:
        return {
            "name": "ingestion",
            "storage": f"file://{self.directory}/checkpoints",
            "libraries": [{"glob": {"include": DEFINITIONS}}],
            "configuration": {**settings.to_conf(), **self._spark()},
        }

    def conf(self) -> dict[str, str]:
        """What Spark must be started with: its static settings, and those of the description."""
        path = self.directory / CONF
        lines = path.read_text().splitlines() if path.exists() else []
        pairs = (line.partition(" ") for line in lines if line.strip() and not line.startswith("#"))
        return {**{name: value.strip() for name, _, value in pairs}, **self.read()["configuration"]}

    def _static(self) -> list[str]:
        metastore = f"jdbc:derby:;databaseName={self.directory}/metastore;create=true"
        return [
            "spark.sql.catalogImplementation hive",
            f"spark.hadoop.javax.jdo.option.ConnectionURL {metastore}",
            f"spark.sql.warehouse.dir file://{self.directory}/tables",
        ]

    def _spark(self) -> dict[str, str]:
        return {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 2, 8)),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.pipelines.execution.maxConcurrentFlows": "4",
            "spark.sql.pipelines.maxFlowRetryAttempts": "10",  # Python workers that don't start within ten seconds fail
        }


def _replace(path: Path, text: str, *, mode: int = 0o644) -> None:
    """All or nothing: a description that is there counts as whole."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.chmod(mode)
    beside.replace(path)
