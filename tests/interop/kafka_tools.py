"""Kafka's own command-line tools, by the names that people know them by.

`python -m tests.interop.kafka_tools` fetches them (Java and Maven are needed) and says what is missing if it can't.
"""

import subprocess
import sys

from bench import apache_kafka

MAIN_CLASSES = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


def run(tool: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> str:
    """What a tool prints; fails, with all of it, when the tool does."""
    done = run_unchecked(tool, *arguments, stdin=stdin, timeout_s=timeout_s)
    assert done.returncode == 0, f"{tool} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_unchecked(
    tool: str, *arguments: str, stdin: str = "", timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    command = apache_kafka.tool_command(MAIN_CLASSES[tool], arguments)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)


if __name__ == "__main__":
    try:
        apache_kafka.jars()
    except apache_kafka.KafkaUnavailableError as error:
        sys.exit(f"No interoperability tests: {error}")
