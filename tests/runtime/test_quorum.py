"""The metadata quorum over real sockets: agreement, and what survives which crash."""

import asyncio
from contextlib import suppress

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.entry import Entry, EntryKind
from ottla.raft.voters import Voter
from ottla.testing.disk import Fault, Operation
from tests.runtime.quorum_rig import Cluster, Member, dice, run, until


def test_three_founders_choose_one_controller_and_all_see_what_it_decides() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        assert await controller.create("a", "b") == [0, 0]
        assert controller.topics == {"a", "b"}
        await cluster.all_have(["a", "b"])
        assert {member.metadata.controller_id for member in cluster.running} == {controller.node_id}
        assert len({member.metadata.applied_offset for member in cluster.running}) == 1

    run(scenario)


def test_who_is_not_the_controller_says_so() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        (other, _) = (member for member in cluster.running if member is not controller)
        with pytest.raises(BrokerError) as refused:
            await other.create("a")
        assert refused.value.code == ErrorCode.NOT_CONTROLLER

    run(scenario)


def test_what_was_acknowledged_survives_the_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        first = await cluster.controller()
        await first.create("kept")
        await first.kill()
        second = await cluster.controller()
        assert second.node_id != first.node_id
        await until(lambda: "kept" in second.topics)
        await second.create("later")
        await first.restart()
        await cluster.all_have(["kept", "later"])

    run(scenario)


def test_a_cluster_that_dies_as_a_whole_comes_back_with_everything() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        names = [f"t{n}" for n in range(20)]
        for name in names:
            await cluster.create(name)
        for member in cluster.running:
            await member.kill()
        for member in cluster.members.values():
            await member.restart()
        await cluster.all_have(names)
        await cluster.create("after")
        await cluster.all_have(["after"])

    run(scenario)


def test_a_controller_without_the_others_tells_its_callers_to_look_elsewhere() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        for member in cluster.running:
            if member is not controller:
                await member.kill()
        with pytest.raises(BrokerError) as refused:
            await controller.create("lost")
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert not controller.metadata.is_active
        assert "lost" not in controller.topics

    run(scenario)


def test_who_leads_is_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        told: list[bool] = []
        controller.metadata.on_active(told.append)
        for member in cluster.running:
            if member is not controller:
                await member.kill()
        await until(lambda: told == [False])

    run(scenario)


def test_an_observer_follows_and_never_decides() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        await cluster.create("before")
        observer = await cluster.join(4)
        await cluster.create("after")
        await cluster.all_have(["before", "after"])
        assert observer.quorum.voters.ids == (1, 2, 3)
        assert not observer.metadata.is_active

    run(scenario)


def test_a_single_node_grows_to_three_voters() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1)
        await cluster.create("before")
        for node_id in (2, 3):
            joined = await cluster.join(node_id)
            await cluster.all_have(["before"])
            await make_voter(cluster, joined)
        await cluster.create("after")
        await (await cluster.controller()).kill()
        await cluster.create("with two of three")
        await cluster.all_have(["before", "after", "with two of three"])

    run(scenario)


async def make_voter(cluster: Cluster, joined: Member) -> None:
    """As soon as the controller takes it for one that has the log, and no other change is under way."""
    voter = Voter(joined.node_id, joined.directory_id)
    controller = await cluster.controller()

    def is_added() -> bool:
        with suppress(BrokerError):
            controller.metadata.add_voter(voter)
        return voter in controller.quorum.voters.voters

    await until(is_added)
    await until(lambda: all(voter in member.quorum.voters.voters for member in cluster.running))


def test_a_clean_stop_hands_leadership_over() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        first = await cluster.controller()
        term = first.quorum.term
        await first.stop()
        second = await cluster.controller()
        assert second.node_id != first.node_id
        assert second.quorum.term == term + 1

    run(scenario)


def test_a_node_of_another_cluster_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        await cluster.create("ours")
        cluster.cluster_id = "elsewhere"
        stranger = await cluster.join(4)
        await until(lambda: "belongs to cluster elsewhere" in caplog.text)
        await until(lambda: "refuses this node" in caplog.text)
        assert stranger.topics == set()

    run(scenario)


def test_a_voter_that_lost_its_disk_is_not_believed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        (other, _) = (member for member in cluster.running if member is not controller)
        await make_voter(cluster, other)
        await cluster.create("a")
        await other.kill()
        impostor = await cluster.join(other.node_id)
        impostor.quorum.directory_id = bytes(16)
        assert not controller.quorum.voters.admits(other.node_id, bytes(16))

    run(scenario)


def test_a_full_disk_of_one_voter_stops_only_that_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        controller = await cluster.controller()
        full = Fault(operation=Operation.WRITE, path_contains="", errno=28)
        controller.disk.faults.append(full)
        with pytest.raises(BrokerError):
            await controller.create("x")
        await until(lambda: (cluster.active() or controller) is not controller)
        await cluster.create("y")
        controller.disk.faults.remove(full)
        await cluster.all_have(["y"])

    run(scenario)


def test_what_was_appended_for_a_commit_still_to_come_goes_with_the_one_that_was_refused() -> None:
    """A commit that ran in a thread fails: whoever was to share the next one is refused too."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1)
        controller = await cluster.controller()
        store = controller.quorum.store
        before = store.log.last_index
        entry = Entry(index=before + 1, term=controller.quorum.term, kind=EntryKind.NOOP)
        store.append([entry], now_ms=0)
        assert store.log.last_index == before + 1
        store.reopen()
        assert store.log.last_index == before

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_acknowledged_is_lost_while_nodes_die_and_come_back(seed: int) -> None:
    """One at a time dies, at any moment; every topic that was confirmed is there in the end, on every node."""
    random = dice(seed)

    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        confirmed: list[str] = []

        async def disturb() -> None:
            for _ in range(8):
                member = random.choice(list(cluster.members.values()))
                await asyncio.sleep(random.uniform(0.01, 0.1))
                await member.kill()
                await asyncio.sleep(random.uniform(0.0, 0.1))
                await member.restart()
                await cluster.controller()

        disturbing = asyncio.create_task(disturb())
        while not disturbing.done():
            name = f"t{len(confirmed)}"
            await cluster.create(name)
            confirmed.append(name)
        await disturbing
        assert len(confirmed) > 10
        await cluster.all_have(confirmed)

    run(scenario)


def test_a_log_that_must_be_cut_is_cut_when_the_full_disk_has_room_again() -> None:
    """A leader that was alone with its entries comes back, and has to give them up while its disk is full."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        await cluster.create("before")
        await cluster.all_have(["before"])
        first = await cluster.controller()
        others = [member for member in cluster.running if member is not first]
        for member in others:
            await member.kill()
        with pytest.raises(BrokerError):
            await first.create("never")
        await first.kill()
        for member in others:
            await member.restart()
        await cluster.create("after")
        await first.restart()
        full = Fault(operation=Operation.WRITE, path_contains="", errno=28)
        first.disk.faults.append(full)
        await until(lambda: first.quorum.refusal is not None)
        first.disk.faults.remove(full)
        await cluster.all_have(["after"])
        assert "never" not in first.topics

    run(scenario)
