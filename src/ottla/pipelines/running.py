"""Runs a project's pipeline, once or again and again, in one Spark.

Spark's declarative pipelines have no continuous mode: a run takes what is there and ends, and `spark-pipelines run`
starts a Spark for each. Here Spark stays, and a run after the first takes a second or so where nothing new is there.
What is run is the same: the project's description, by the same functions that `spark-pipelines` calls.

Those want a session of Spark Connect. Its server is started inside of the driver, as `spark-pipelines` does, but on a
free port, so that pipelines can be run beside each other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from ottla.errors import OttlaError
from ottla.pipelines.project import Project
from ottla.spark import LOOPBACK, local_address, require_java

__all__ = ["PipelineFailedError", "Runner", "Told"]

Told = dict[str, Any]
"""What happened, for people and programs that watch: `event` says which of

    started   spark_ui
    begun     number
    batch     flow, batch, rows, ms, watermark
    flow      flow, says
    run       number, ms
"""

SPARK: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
JAVA: Final = "spark.driver.extraJavaOptions"
TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


class PipelineFailedError(OttlaError):
    """A run has failed. What it had not finished is done by the next."""


class Runner:
    """A Spark for one pipeline, while its `with` block lasts."""

    def __init__(
        self,
        project: Project,
        tell: Callable[[Told], None],
        *,
        master: str = "local[*]",
        conf: dict[str, str] | None = None,
    ) -> None:
        require_java()
        self._project = project
        self._tell = tell
        self._runs = 0
        self._conf = {**SPARK, **project.conf(), "spark.master": master, **(conf or {})}
        java = f"{self._conf.get(JAVA, '')} -Dderby.system.home={project.directory}"  # else its log is wherever we are
        self._conf[JAVA] = java.strip()
        self._driver: Any = None
        self._spark: Any = None
        self._listener: Any = None

    def __enter__(self) -> Self:
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        port = _free_port()
        os.environ.setdefault("PYSPARK_PYTHON", str(self._project.python))
        os.environ.update(local_address(self._conf))
        os.environ.setdefault(TOKEN, uuid.uuid4().hex)  # only who knows it may use the server
        builder = SparkSession.builder.appName("ottla-ingestion").config("spark.api.mode", "classic")
        for name, value in {**self._conf, "spark.connect.grpc.binding.port": str(port)}.items():
            builder = builder.config(name, value)
        self._driver = builder.getOrCreate()
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # what pyspark.sql.functions go by
        self._spark = ConnectSession.builder.remote(f"sc://localhost:{port}").getOrCreate()
        self._listener = _listener(self._tell)
        self._spark.streams.addListener(self._listener)
        self._tell({"event": "started", "spark_ui": self._driver.sparkContext.uiWebUrl})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(Exception):  # of a Spark that is gone there is nothing left to end
            self._spark.streams.removeListener(self._listener)
            self._spark.stop()
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        with contextlib.suppress(Exception):
            self._driver.stop()

    def run(self) -> None:
        """Everything that is in the raw topic now, through to the end."""
        from pyspark.errors import PySparkException

        began = time.monotonic()
        self._tell({"event": "begun", "number": self._runs + 1})
        try:
            self._run_graph()
        except PySparkException as error:
            raise PipelineFailedError(str(error).split("\n\nJVM stacktrace")[0]) from error
        self._runs += 1
        self._tell({"event": "run", "number": self._runs, "ms": round((time.monotonic() - began) * 1_000)})

    def _run_graph(self) -> None:
        from pyspark.pipelines import cli
        from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
        from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

        spec = cli.load_pipeline_spec(self._project.spec)
        graph = create_dataflow_graph(
            self._spark, default_catalog=spec.catalog, default_database=spec.database, sql_conf={}
        )
        registry = SparkConnectGraphElementRegistry(self._spark, graph)
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            cli.register_definitions(self._project.spec, registry, spec, self._spark, graph)
        results = start_run(
            self._spark, graph, full_refresh=[], full_refresh_all=False, refresh=[], dry=False, storage=spec.storage
        )
        for result in results:
            if "pipeline_event_result" in result:
                self._tell({"event": "flow", "says": result["pipeline_event_result"].event.message})


def _listener(tell: Callable[[Told], None]) -> Any:
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            progress = event.progress
            tell(
                {
                    "event": "batch",
                    "flow": (progress.name or "").rpartition(".")[2],
                    "batch": progress.batchId,
                    "rows": progress.numInputRows,
                    "ms": progress.batchDuration,
                    "watermark": progress.eventTime.get("watermark"),
                }
            )

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    return Listener()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
