import inspect
import re

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.client import errors
from ottla.client.librdkafka import to_error, translated
from ottla.errors import ErrorCode, OttlaError


def test_every_exception_of_the_client_is_in_the_tree_that_the_module_draws() -> None:
    drawn = set(re.findall(r"\w+Error", errors.__doc__ or ""))
    defined = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, OttlaError) and kind.__module__ == errors.__name__
    }

    assert defined <= drawn
    assert all(issubclass(getattr(errors, name), errors.ClientError) for name in defined)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, errors.UnreachableError),
        (KafkaError._ALL_BROKERS_DOWN, errors.UnreachableError),
        (KafkaError._TIMED_OUT, errors.TimedOutError),
        (KafkaError._UNKNOWN_TOPIC, errors.TopicNotFoundError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.TopicNotFoundError),
        (KafkaError.TOPIC_ALREADY_EXISTS, errors.TopicExistsError),
        (KafkaError.GROUP_ID_NOT_FOUND, errors.GroupNotFoundError),
        (KafkaError.NON_EMPTY_GROUP, errors.GroupNotEmptyError),
        (KafkaError.ILLEGAL_GENERATION, errors.CommitFailedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.NotAuthorizedError),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.RefusedError),
        (KafkaError._INVALID_ARG, errors.ClientError),
    ],
)
def test_an_error_of_librdkafka_gets_its_class(code: int, kind: type[errors.ClientError]) -> None:
    assert type(to_error(KafkaError(code))) is kind


def test_the_code_of_a_broker_is_kept() -> None:
    assert to_error(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)).code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_code_of_librdkafka_alone_is_no_code_of_a_broker() -> None:
    assert to_error(KafkaError(KafkaError._TRANSPORT)).code is None


def test_a_time_out_can_be_caught_as_pythons_own() -> None:
    assert isinstance(to_error(KafkaError(KafkaError._TIMED_OUT)), TimeoutError)


def test_what_librdkafka_raises_comes_out_with_what_was_tried() -> None:
    with pytest.raises(errors.TopicNotFoundError, match="looking up t: "), translated("looking up t"):
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))


def test_several_failures_are_told_by_name() -> None:
    failure = errors.BatchError({"a": errors.TopicExistsError("there is one"), "b": errors.ClientError("no")})

    assert str(failure) == "a: there is one; b: no"
