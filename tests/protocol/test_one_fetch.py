"""The short forms are the same bytes as the general codec's, and anything else is left to that."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.one_fetch import VERSION, OneAnswer, OneFetch, read_answer, read_request, write_answer

TOPIC = bytes(range(16))
int32 = st.integers(min_value=0, max_value=2**31 - 1)
int64 = st.integers(min_value=-1, max_value=2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
asked = st.fixed_dictionaries(
    {
        "max_wait_ms": int32, "max_bytes": int32, "session_id": int32, "session_epoch": int32, "topic_id": ids,
        "index": int32, "leader_epoch": int32, "offset": int64, "last_epoch": int32, "start_offset": int64,
        "partition_max_bytes": int32, "replica_id": int32, "replica_epoch": int64,
    }
)  # fmt: skip
ORDER = (
    "max_wait_ms", "max_bytes", "session_id", "session_epoch", "topic_id", "index", "leader_epoch", "offset",
    "last_epoch", "start_offset", "partition_max_bytes", "replica_id", "replica_epoch",
)  # fmt: skip
ANSWERED = ("high_watermark", "index", "session_id", "start_offset", "topic_id")
told = st.builds(OneAnswer, int32, ids, int32, int64, int64, st.binary(max_size=20_000))


def message(at: dict[str, Any]) -> FetchRequest:
    partition = FetchPartition(
        partition=at["index"],
        current_leader_epoch=at["leader_epoch"],
        fetch_offset=at["offset"],
        last_fetched_epoch=at["last_epoch"],
        log_start_offset=at["start_offset"],
        partition_max_bytes=at["partition_max_bytes"],
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=at["replica_id"], replica_epoch=at["replica_epoch"]),
        max_wait_ms=at["max_wait_ms"],
        min_bytes=1,
        max_bytes=at["max_bytes"],
        session_id=at["session_id"],
        session_epoch=at["session_epoch"],
        topics=[FetchTopic(topic_id=at["topic_id"], partitions=[partition])],
    )


def response(of: OneAnswer) -> FetchResponse:
    data = PartitionData(
        partition_index=of.index,
        high_watermark=of.high_watermark,
        last_stable_offset=-1,
        log_start_offset=of.start_offset,
        aborted_transactions=None,
        records=of.records,
    )
    topic = FetchableTopicResponse(topic_id=of.topic_id, partitions=[data])
    return FetchResponse(session_id=of.session_id, responses=[topic])


def fields(answer: OneAnswer | None) -> tuple[Any, ...] | None:
    if answer is None:
        return None
    return (*(getattr(answer, name) for name in ANSWERED), bytes(answer.records))


@given(asked)
def test_a_request_is_what_the_codec_writes_and_is_read_back(at: dict[str, Any]) -> None:
    body = OneFetch(**at).body
    assert body == encode(message(at), VERSION)
    assert read_request(memoryview(b"head" + body), 4) == tuple(at[name] for name in ORDER)


@given(told)
def test_an_answer_is_what_the_codec_writes_and_is_read_back(answer: OneAnswer) -> None:
    body = write_answer(answer)
    assert body == encode(response(answer), VERSION)
    assert fields(read_answer(memoryview(b"head" + body), 4)) == fields(answer)


ONE = FetchPartition(partition=1, fetch_offset=5, partition_max_bytes=9)
STATE = ReplicaState(replica_id=1, replica_epoch=2)
OTHER_REQUESTS = {
    "no partition": FetchRequest(replica_state=STATE, session_id=4),
    "two partitions": FetchRequest(replica_state=STATE, topics=[FetchTopic(topic_id=TOPIC, partitions=[ONE, ONE])]),
    "a consumer": FetchRequest(topics=[FetchTopic(topic_id=TOPIC, partitions=[ONE])]),
    "a consumer with a rack": FetchRequest(rack_id="r" * 15, topics=[FetchTopic(topic_id=TOPIC, partitions=[ONE])]),
    "something forgotten": FetchRequest(
        replica_state=STATE,
        topics=[FetchTopic(topic_id=TOPIC, partitions=[ONE])],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC, partitions=[1])],
    ),
}


@pytest.mark.parametrize("request_", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS.keys())
def test_other_requests_are_left_to_the_codec(request_: FetchRequest) -> None:
    assert read_request(memoryview(encode(request_, VERSION)), 0) is None


GOOD = PartitionData(partition_index=1, aborted_transactions=None, records=b"abc")
OTHER_ANSWERS = {
    "an error": FetchResponse(error_code=70),
    "throttled": FetchResponse(throttle_time_ms=5, responses=[FetchableTopicResponse(partitions=[GOOD])]),
    "nothing": FetchResponse(session_id=3),
    "two partitions": FetchResponse(responses=[FetchableTopicResponse(partitions=[GOOD, GOOD])]),
    "two topics": FetchResponse(responses=[FetchableTopicResponse(partitions=[GOOD])] * 2),
    "refused": FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(error_code=6, aborted_transactions=None)])]
    ),
    "diverging": FetchResponse(
        responses=[
            FetchableTopicResponse(
                partitions=[
                    PartitionData(
                        diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), aborted_transactions=None, records=b""
                    )
                ]
            )
        ]
    ),
}


@pytest.mark.parametrize("answer", OTHER_ANSWERS.values(), ids=OTHER_ANSWERS.keys())
def test_other_answers_are_left_to_the_codec(answer: FetchResponse) -> None:
    frame = memoryview(encode(answer, VERSION))
    assert read_answer(frame, 0) is None
    assert OneFetch.decode(frame, 0)[0] == decode(FetchResponse, VERSION, frame)


@given(told, st.integers(min_value=0, max_value=100))
def test_an_answer_that_is_cut_off_is_none(answer: OneAnswer, missing: int) -> None:
    body = write_answer(answer)
    cut = body[: max(0, len(body) - 1 - missing)]
    assert read_answer(memoryview(cut), 0) is None
