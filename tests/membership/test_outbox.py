from hypothesis import given
from hypothesis import strategies as st

from ottla.config.membership import GossipConfig
from ottla.membership import Address, Load, Member, Status
from ottla.membership.outbox import Outbox, pages
from ottla.membership.roster import Roster, all_entries
from ottla.membership.wire import Ack, Gossip, Left, Sync, decode, encode_entry

LONG = Address("h" * 255, 65_535)
LONGEST = Member(
    node_id=2, run_id=1, status=Status.SUSPECT, gossip=LONG, kafka=LONG, rack="r" * 255, load=Load(), load_version=1
)
SMALLEST_BYTES_MAX = 1_200


def outbox(packet_bytes_max: int, cluster_id: str = "c") -> Outbox:
    here = Address("h", 1)
    return Outbox(Roster(Member(node_id=1, run_id=1, gossip=here, kafka=here)), cluster_id, packet_bytes_max)


def test_rumours_fill_the_room_that_a_packet_has_left() -> None:
    box = outbox(1_400)
    for about in range(100):
        box.rumours.spread(about, encode_entry(Left(about, 1, 1)))
    box.send(LONG, Gossip())

    [(_, packet)] = box.drain().packets

    assert 1_400 - len(encode_entry(Left(1, 1, 1))) < len(packet) <= 1_400
    assert [entry.node_id for entry in decode(packet).entries] == list(range(len(decode(packet).entries)))


def test_what_must_be_said_comes_before_rumours() -> None:
    box = outbox(1_400)
    box.rumours.spread(5, encode_entry(Left(5, 1, 1)))
    box.send(LONG, Gossip(), [encode_entry(Left(6, 1, 1))])

    [(_, packet)] = box.drain().packets

    assert decode(packet).entries == (Left(6, 1, 1), Left(5, 1, 1))


def test_a_rumour_stops_after_as_many_packets_as_the_size_of_the_cluster_asks_for() -> None:
    box = outbox(1_400)
    box.rumours.spread(5, encode_entry(Left(5, 1, 1)))
    for _ in range(10):
        box.send(LONG, Gossip())

    assert [len(decode(packet).entries) for _, packet in box.drain().packets] == [1] * 4 + [0] * 6


def test_the_longest_names_fit_into_the_smallest_packet() -> None:
    GossipConfig(packet_bytes_max=SMALLEST_BYTES_MAX)
    box = outbox(SMALLEST_BYTES_MAX, cluster_id="c" * 255)
    entries = [encode_entry(entry) for entry in all_entries(LONGEST, accuser=1)]
    box.send(LONG, Ack(1, 2, 3), entries)
    box.rumours.spread(2, entries[0])
    box.send(LONG, Ack(1, 2, 3))
    box.send_pages(LONG, Sync(1), entries * 3)

    packets = [packet for _, packet in box.drain().packets]

    assert max(map(len, packets)) <= SMALLEST_BYTES_MAX
    assert sum(len(decode(packet).entries) for packet in packets) == 3 + 1 + 9


def test_what_was_drained_does_not_come_again() -> None:
    box = outbox(1_400)
    box.send(LONG, Gossip())
    assert len(box.drain().packets) == 1
    assert box.drain().packets == ()


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(50, 200))
def test_pages_have_all_entries_in_order_and_no_page_is_too_long(entries: list[bytes], room_bytes: int) -> None:
    made = pages(entries, room_bytes)
    assert [entry for page in made for entry in page] == entries
    assert all(0 < sum(map(len, page)) <= room_bytes for page in made)
