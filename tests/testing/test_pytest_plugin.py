"""The fixtures that every project gets by installing ottla, used as such a project would."""

import pytest

pytest_plugins = ["pytester"]


def run(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_a_topic_is_written_and_read(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_orders(ottla_topic):
            ottla_topic.producer().send(ottla_topic.name, b"order 1").result(10)
            [message] = ottla_topic.consumer().poll(10_000)
            assert message.value == b"order 1"
        """,
    )

    result.assert_outcomes(passed=1)


def test_any_kafka_client_can_use_the_node(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from confluent_kafka import Producer

        def test_other_client(ottla_node):
            producer = Producer({"bootstrap.servers": ottla_node.bootstrap_servers})
            producer.produce("orders", b"x")
            assert producer.flush(10) == 0
        """,
    )

    result.assert_outcomes(passed=1)


def test_tests_share_the_node_but_not_the_topic(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_topics(ottla_node, ottla_topic, number):
            assert ottla_topic.admin().topic_offsets(ottla_topic.name)[ottla_topic.name, 0].offset == 0
            ottla_topic.producer().send(ottla_topic.name, b"x").result(10)
            seen.append((ottla_node.bootstrap_servers, ottla_topic.name))

        def test_they_differed():
            (node, topic), (same_node, other_topic) = seen
            assert node == same_node
            assert topic != other_topic
        """,
    )

    result.assert_outcomes(passed=3)


def test_a_topic_may_have_more_partitions(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.parametrize("ottla_topic", [3], indirect=True)
        def test_partitions(ottla_topic):
            assert ottla_topic.partitions == 3
            assert len(ottla_topic.admin().describe_topic(ottla_topic.name).partitions) == 3
        """,
    )

    result.assert_outcomes(passed=1)


def test_the_clients_that_a_test_leaves_open_are_closed_and_the_node_is_stopped(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket
        import pytest

        kept = {}

        def test_leaves_things_open(ottla_topic):
            kept["producer"] = ottla_topic.producer()
            kept["address"] = ottla_topic.bootstrap_servers.split(":")

        def test_they_are_closed():
            with pytest.raises(Exception, match="closed"):
                kept["producer"].send("t", b"x")

        @pytest.fixture(scope="session", autouse=True)
        def look_after_everything():
            yield
            with pytest.raises(OSError):
                socket.create_connection(kept["address"], timeout=1)
        """,
    )

    result.assert_outcomes(passed=2)


def test_further_nodes_have_their_own_settings_and_data(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_two_nodes(ottla_node, ottla_node_factory):
            other = ottla_node_factory(num_partitions=5)
            other.producer().send("made-by-use", b"x").result(10)
            assert len(other.admin().describe_topic("made-by-use").partitions) == 5
            assert "made-by-use" not in [topic.name for topic in ottla_node.admin().list_topics()]
            assert other.data_dir.is_dir()
            assert other.data_dir != ottla_node.data_dir
        """,
    )

    result.assert_outcomes(passed=1)


def test_workers_of_xdist_have_a_node_each(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_send(ottla_topic, number):
            ottla_topic.producer().send(ottla_topic.name, b"x").result(10)
        """,
        "-n",
        "2",
    )

    result.assert_outcomes(passed=4)


def test_a_suite_that_does_not_ask_for_a_node_starts_none(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import sys

        def test_nothing_is_loaded():
            assert "confluent_kafka" not in sys.modules
            assert "ottla.embedded" not in sys.modules
        """,
    )

    result.assert_outcomes(passed=1)


def test_the_fixtures_explain_themselves(pytester: pytest.Pytester) -> None:
    result = run(pytester, "", "--fixtures")

    result.stdout.fnmatch_lines(
        ["ottla_node*session scope*", "*One node for all tests*", "ottla_topic*", "*A new topic*"]
    )
