"""Apache Kafka from Maven Central: its jars by artifact name, a single KRaft node, and its command-line tools.

The benchmarks compare with it, and the interoperability tests run its tools against Ottla. Neither is part of
`make test`: where Java or Maven is missing, `jars()` raises `KafkaUnavailableError` and says what to install.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

Artifact = tuple[str, str, str]
"""Group, name and version."""

VERSION = "4.3.1"
HOME = Path(os.environ.get("OTTLA_INTEROP_DIR", Path(__file__).parent.parent / ".interop")).resolve()
_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_PROJECT = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>interop</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    {}
  </dependencies>
</project>
"""
_LOGGING = """\
<Configuration status="WARN">
  <Appenders><Console name="E" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="${sys:kafka.log.level:-WARN}"><AppenderRef ref="E"/></Root></Loggers>
</Configuration>
"""
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_SCRIPTS_JVM = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""How Kafka's scripts run whatever they run, as far as it is not a matter of course today."""
_SERVER_JVM = ("-Xms1g", "-Xmx1g", *_SCRIPTS_JVM)
_CLIENT_JVM = ("-Xmx512m", *_SCRIPTS_JVM)
_TOOL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaUnavailableError(Exception):
    """Java, Maven or the artifacts are missing."""


def jars() -> str:
    """The class path, fetched at first use."""
    return f"{fetched(f'kafka-{VERSION}', _DEPENDENCIES, alone=False)}/*"


def fetched(name: str, artifacts: Sequence[Artifact], *, alone: bool) -> Path:
    """A directory with these artifacts, fetched at first use; with what they depend on unless `alone`."""
    for program, package in (("java", "a Java runtime (17 or newer)"), ("mvn", "Maven")):
        if shutil.which(program) is None:
            raise KafkaUnavailableError(f"`{program}` is missing: install {package} to compare with Apache Kafka")
    libraries = HOME / name
    with _only_one_at_a_time():
        if not libraries.exists():
            _resolve(libraries, artifacts, alone)
    return libraries


@contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(libraries: Path, artifacts: Sequence[Artifact], alone: bool) -> None:
    project = HOME / "pom.xml"
    excluded = _ALONE if alone else ""
    dependencies = [_DEPENDENCY.format(*artifact, excluded) for artifact in artifacts]
    project.write_text(_PROJECT.format("\n    ".join(dependencies)))
    (HOME / "log4j2.xml").write_text(_LOGGING)
    unfinished = libraries.with_name(f"{libraries.name}.part")
    command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={unfinished}", "-DincludeScope=runtime"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(f"Maven could not fetch {libraries.name}:\n{done.stdout.strip()}")
    unfinished.rename(libraries)


def _java(*options: str, log_level: str) -> list[str]:
    class_path = jars()
    logging = [f"-Dlog4j2.configurationFile={HOME / 'log4j2.xml'}", f"-Dkafka.log.level={log_level}"]
    return ["java", *options, *logging, "-cp", class_path]


def tool_command(main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command line that runs one of Kafka's tools."""
    return [*_java(*_TOOL_JVM, log_level="ERROR"), main_class, *arguments]


def client_command(main_class: str, arguments: Sequence[str]) -> list[str]:
    """The same for a program that runs long enough to be compiled well."""
    return [*_java(*_CLIENT_JVM, log_level="ERROR"), main_class, *arguments]


def format_storage(ports: Sequence[int], directory: Path, *, settings: Mapping[str, str]) -> None:
    """Write the settings of nodes that are brokers and controllers, and format their storage."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(len(ports)):
        properties = _properties(directory, number)
        every = _server_settings(ports, number, directory) | dict(settings)
        properties.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
        command = [*_java(log_level="WARN"), "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID]
        subprocess.run([*command, "-c", str(properties)], check=True, capture_output=True)


def start_server(directory: Path, number: int = 0) -> subprocess.Popen[bytes]:
    """Start a node whose storage was formatted; the caller waits until it answers."""
    command = [*_java(*_SERVER_JVM, log_level="WARN"), "kafka.Kafka", str(_properties(directory, number))]
    with open(directory / "server.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _properties(directory: Path, number: int) -> Path:
    return directory / f"server-{number}.properties"


def _server_settings(ports: Sequence[int], number: int, directory: Path) -> dict[str, str]:
    port, copies = ports[number], str(len(ports))
    voters = ",".join(f"{at + 1}@127.0.0.1:{voter + 1}" for at, voter in enumerate(ports))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number + 1),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(directory / f"logs-{number}"),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
