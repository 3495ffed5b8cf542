"""Topics that come to be because somebody needs them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.runtime import new_topics
from ottla.runtime.new_topics import NewTopics
from ottla.runtime.timers import Timers
from ottla.services import AUTOMATIC, Deferred


class Rig:
    def __init__(self, timers: Timers) -> None:
        self.image = SimpleNamespace(topics={"old": object()})
        self.sent: list[tuple[list[str], Deferred[CreateTopicsResponse]]] = []
        self.new = NewTopics(channel=cast(Any, self), image=lambda: cast(Any, self.image), timers=timers)

    def send(self, request: Any, *, timeout_ms: int, client_id: str) -> Deferred[Any]:
        assert client_id == AUTOMATIC
        self.sent.append(([topic.name for topic in request.topics], Deferred()))
        return self.sent[-1][1]

    def answer(self, number: int, **codes: ErrorCode) -> None:
        results = [CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
        self.sent[number][1].complete(CreateTopicsResponse(topics=results))

    def shows(self, *names: str) -> None:
        self.image.topics.update(dict.fromkeys(names, object()))
        self.new.image_changed()


@pytest.fixture
def rig() -> Any:
    loop = asyncio.new_event_loop()
    timers = Timers(loop)
    yield Rig(timers)
    timers.close()
    loop.close()


def test_a_topic_that_is_there_is_not_asked_for(rig: Rig) -> None:
    assert rig.new.ensure(["old", "old"]).value == {"old": 0}
    assert rig.sent == []


def test_the_answer_comes_when_this_nodes_image_has_the_topic(rig: Rig) -> None:
    answer = rig.new.ensure(["old", "a", "b"])
    assert [names for names, _ in rig.sent] == [["a", "b"]]
    rig.answer(0, a=ErrorCode.NONE, b=ErrorCode.TOPIC_ALREADY_EXISTS)
    assert not answer.done
    rig.shows("a")
    assert not answer.done
    rig.shows("b")
    assert answer.value == {"old": 0, "a": 0, "b": 0}


def test_the_image_may_have_it_before_the_answer_is_here(rig: Rig) -> None:
    answer = rig.new.ensure(["a"])
    rig.shows("a")
    assert answer.value == {"a": 0}
    rig.answer(0, a=ErrorCode.NONE)


def test_many_who_need_the_same_topic_ask_once(rig: Rig) -> None:
    first, second = rig.new.ensure(["a"]), rig.new.ensure(["a", "b"])
    assert [names for names, _ in rig.sent] == [["a"], ["b"]]
    rig.shows("a", "b")
    assert first.value == {"a": 0}
    assert second.value == {"a": 0, "b": 0}


def test_a_topic_that_is_refused_has_its_error_and_may_be_asked_for_again(rig: Rig) -> None:
    answer = rig.new.ensure(["a"])
    rig.answer(0, a=ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert answer.value == {"a": ErrorCode.INVALID_TOPIC_EXCEPTION}
    rig.new.ensure(["a"])
    assert len(rig.sent) == 2


def test_where_no_controller_answers_that_is_told_of_each(rig: Rig) -> None:
    answer = rig.new.ensure(["a", "b"])
    rig.sent[0][1].fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    assert answer.value == {"a": ErrorCode.REQUEST_TIMED_OUT, "b": ErrorCode.REQUEST_TIMED_OUT}


def test_an_image_that_does_not_move_on_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_topics, "IMAGE_MS_MAX", 5)

    async def test() -> None:
        timers = Timers(asyncio.get_running_loop())
        rig = Rig(timers)
        answer = rig.new.ensure(["a"])
        rig.answer(0, a=ErrorCode.NONE)
        while not answer.done:
            await asyncio.sleep(0.001)
        assert answer.value == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
        timers.close()

    asyncio.run(asyncio.wait_for(test(), 10))
