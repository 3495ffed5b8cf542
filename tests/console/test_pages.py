"""What forms and addresses say, and what can't be meant."""

import pytest

from ottla.console.pages.messages import Asked
from ottla.console.pages.produce import headers_of, message_of
from ottla.console.searching import Lane, Seen, matcher
from ottla.console.watching import POINTS_KEPT, History
from ottla.http.errors import HttpError
from ottla.protocol.record import Record
from tests.console.test_lag import look


def test_an_address_says_what_was_asked_for() -> None:
    given = {"start": "offset", "offset": "1,234", "partition": "2", "query": "key:a b", "limit": "100"}
    asked = Asked.of(given)

    assert (asked.offset, asked.partition, asked.limit) == (1_234, 2, 100)
    assert (
        asked.address("a/b") == "/topics/a%2Fb/messages?start=offset&partition=2&offset=1234&query=key%3Aa+b&limit=100"
    )


def test_times_are_utc() -> None:
    assert Asked.of({"start": "time", "time": "1970-01-01T00:01"}).since_ms == 60_000


@pytest.mark.parametrize("given", [{"start": "nowhere"}, {"offset": "x"}, {"partition": "-1"}, {"limit": "9" * 30}])
def test_what_can_not_be_meant_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(HttpError):
        Asked.of(given)


def test_no_page_holds_more_than_it_may() -> None:
    assert Asked.of({"limit": "100000"}).limit == 1_000


def test_headers_are_lines() -> None:
    assert headers_of("trace: a:b\n\n  empty \nblank:") == [("trace", "a:b"), ("empty", None), ("blank", "")]


def test_a_header_needs_a_name() -> None:
    with pytest.raises(HttpError):
        headers_of(": x")


def test_a_form_is_a_message() -> None:
    message = message_of({"key": "k", "value": "v", "headers": "", "partition": " 3 "})

    assert (message.key, message.value, message.partition) == ("k", "v", 3)
    assert message_of({"value": ""}).key is None
    assert message_of({"value": "x", "null": "on"}).value is None


@pytest.mark.parametrize("given", [{"value": "{", "json": "on"}, {"partition": "two"}])
def test_a_form_that_can_not_be_meant_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(HttpError):
        message_of(given)


RECORD = Record(key=b"User-1", value=b'{"city": "Vienna", "n": [7]}', headers=[("Trace", b"AF01")])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("vienna", True),
        ("user-1", True),
        ("af01", True),
        ("trace", True),
        ("prague", False),
        ("key:User-1", True),
        ("key:user", False),
        ("header:Trace", True),
        ("header:Trace:AF01", True),
        ("header:Trace:x", False),
        ("$.n[0]:7", True),
        ("$.city:Prague", False),
    ],
)
def test_searches(query: str, found: bool) -> None:
    matches = matcher(query)

    assert matches is not None
    assert matches(RECORD) is found


def test_no_search_is_all() -> None:
    assert matcher("  ") is None


def seen(offset: int) -> Seen:
    return Seen(
        topic="t", partition=0, offset=offset, timestamp_ms=offset, key=None, value=None, headers=(), value_bytes=0
    )


def test_a_lane_is_read_in_pieces_from_its_end() -> None:
    lane = Lane(0, 5, 12, backwards=True)
    pieces = []
    while not lane.is_read:
        piece = lane.next_piece(3)
        pieces.append(piece)
        lane.take(piece, [seen(offset) for offset in range(*piece)])

    assert pieces == [(9, 12), (6, 9), (5, 6)]
    assert [each.offset for each in lane.found] == [11, 10, 9, 8, 7, 6, 5]


def test_a_lane_is_read_in_pieces_from_its_beginning() -> None:
    lane = Lane(0, 0, 5, backwards=False)
    lane.take(lane.next_piece(2), [seen(0), seen(1)])

    assert lane.next_piece(10) == (2, 5)


def test_the_past_of_a_group_is_bounded() -> None:
    history = History()
    for at in range(POINTS_KEPT + 50):
        history.add(look(at, {0: (10 + at, 5, "a")}))

    assert len(history.points) == POINTS_KEPT
    assert history.points[-1].at_ms == look(POINTS_KEPT + 49, {}).at_ms


def test_two_tabs_make_no_more_points_than_one() -> None:
    history = History()
    for _ in range(3):
        history.add(look(1, {0: (10, 5, "a")}))

    assert len(history.points) == 1
