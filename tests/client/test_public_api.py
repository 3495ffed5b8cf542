"""What `import ottla` gives, and what it costs."""

import subprocess
import sys

import ottla


def loaded_by(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stdout.split())


def test_the_names_of_the_original_design_are_there() -> None:
    from ottla import (  # noqa: F401  # that it works is the test
        AckMode,
        Admin,
        AsyncConsumer,
        AsyncProducer,
        Consumer,
        ConsumerConfig,
        OffsetResetPolicy,
        Producer,
        ProducerConfig,
        Queue,
        QueueConsumer,
        QueueMode,
    )


def test_every_public_name_can_be_had() -> None:
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None
    assert set(ottla.__all__) <= set(dir(ottla))


def test_a_star_import_does_not_hide_pythons_own_open() -> None:
    assert callable(ottla.open)
    assert "open" not in ottla.__all__
    assert "open" in dir(ottla)


def test_a_name_that_is_not_there_is_missed_as_usual() -> None:
    assert not hasattr(ottla, "Kafka")


def test_importing_loads_no_client_and_no_broker() -> None:
    loaded = loaded_by("import ottla")

    assert not {name for name in loaded if name.startswith(("confluent_kafka", "asyncio", "uvloop", "ottla."))}


def test_a_broker_does_not_load_the_client() -> None:
    assert "confluent_kafka" not in loaded_by("import ottla.embedded")


def test_a_client_does_not_load_the_broker() -> None:
    loaded = loaded_by("from ottla import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, Queue")

    assert not {name for name in loaded if name.startswith(("ottla.runtime", "ottla.storage", "uvloop"))}


def test_the_pytest_plugin_loads_neither() -> None:
    loaded = loaded_by("import ottla.testing.pytest_plugin")

    assert not {name for name in loaded if name.startswith(("confluent_kafka", "uvloop", "ottla.client", "ottla.run"))}
