"""What a committer learns: no loop and no disk, only counts."""

from random import Random

from ottla.runtime.commit_timing import Gathering, Lookout, SyncPace


def test_the_pace_is_slow_when_syncs_are_on_average_and_quick_again_when_those_are_gone() -> None:
    pace = SyncPace(slow_us=1_000)
    for _ in range(SyncPace.WINDOW // 4):
        for took_ns in (3_000_000, 200_000, 200_000, 200_000):
            pace.record(took_ns)
    assert pace.is_quick, "a quarter of them is slow, as where threads wait for their turn"
    for _ in range(SyncPace.WINDOW):
        pace.record(1_100_000)
    assert not pace.is_quick
    for _ in range(SyncPace.WINDOW // 2):
        pace.record(100_000)
    assert pace.is_quick


def test_a_sync_that_hangs_says_little_of_the_others() -> None:
    pace = SyncPace(slow_us=1_000)
    for _ in range(SyncPace.WINDOW):
        pace.record(150_000)
    for _ in range(5):
        pace.record(3_000_000_000)
    assert pace.is_quick
    for _ in range(10):
        pace.record(3_000_000_000)
    assert not pace.is_quick


def test_gathering_ends_when_as_many_are_there_or_nobody_comes() -> None:
    gathering = Gathering()
    assert not gathering.is_worth_it(4)
    turns = 0
    while gathering.is_worth_it(1):
        turns += 1
    assert turns == Gathering.TURNS_MAX
    assert gathering.is_worth_it(3)
    assert not gathering.is_worth_it(4)


def test_gathering_waits_for_fewer_turns_where_they_are_used_for_work() -> None:
    gathering = Gathering()
    assert not gathering.is_worth_it(4)
    turns = 0
    while gathering.is_worth_it(1):
        gathering.has_worked()
        turns += 1
    assert 1 < turns < Gathering.TURNS_MAX / 10


def test_gathering_is_for_those_who_shared_commits_lately() -> None:
    gathering = Gathering()
    assert not any(gathering.is_worth_it(1) for _ in range(20))
    assert not gathering.is_worth_it(2)
    commits = 0
    while commits < 4:
        commits += not gathering.is_worth_it(1)
    assert not gathering.is_worth_it(1)


def test_a_request_ends_the_lookout() -> None:
    lookout = Lookout(Lookout.ANSWERS_MAX)
    for _ in range(1_000):
        assert lookout.is_worth_it(1)
        assert lookout.goes_on(has_come=False)
        assert not lookout.goes_on(has_come=True)


def test_where_nothing_comes_it_looks_less_and_less_often() -> None:
    lookout = Lookout(Lookout.ANSWERS_MAX)
    looks = []
    for commit in range(2_000):
        if lookout.is_worth_it(1):
            looks.append(commit)
            assert [lookout.goes_on(has_come=False) for _ in range(Lookout.TURNS_MAX)][-2:] == [True, False]
    assert looks[:4] == [0, 2, 6, 14]
    assert looks[-1] - looks[-2] == Lookout.PAUSE_MAX + 1
    while not lookout.is_worth_it(1):
        pass
    assert not lookout.goes_on(has_come=True)
    assert lookout.is_worth_it(1)


def test_with_many_answers_or_none_there_is_no_lookout() -> None:
    lookout = Lookout(answers_max=3)
    assert not lookout.is_worth_it(0)
    assert not lookout.is_worth_it(4)
    assert lookout.is_worth_it(3)


def looked_for(lookout: Lookout, comes_after: int) -> int:
    """The turns of a look, where the next request comes after so many: 0 if there was none."""
    if not lookout.is_worth_it(1):
        return 0
    turns = 1
    while lookout.goes_on(has_come=turns > comes_after):
        turns += 1
    return turns


def taught(comes_after: list[int]) -> Lookout:
    """One that has met those again and again."""
    lookout = Lookout(Lookout.ANSWERS_MAX)
    for at in range(4 * Lookout.LEARN_FROM * Lookout.FULL_EVERY):
        looked_for(lookout, comes_after[at % len(comes_after)])
    return lookout


def test_for_one_who_waits_for_the_answer_it_looks_until_that_one_comes() -> None:
    lookout = taught([38, 43, 41])
    assert all(looked_for(lookout, 42) == 43 for _ in range(100))
    late = [looked_for(lookout, 1_000) for _ in range(2 * Lookout.FULL_EVERY)]
    assert set(late) == {0, 50, Lookout.TURNS_MAX}, "a little longer than for most, and one in some to the end"


def test_for_one_with_a_pace_of_its_own_there_is_a_look_now_and_then() -> None:
    paced = [5] * 9 + [15] * 4 + [25] * 6 + [35] * 8 + [45] * 8 + [55] * 14 + [65] * 18 + [75] * 15 + [90] * 19
    Random(1).shuffle(paced)
    lookout = taught(paced)
    looks = [looked_for(lookout, paced[at % len(paced)]) for at in range(100 * Lookout.FULL_EVERY)]
    assert 50 < sum(look > 0 for look in looks) <= 100


def test_it_learns_anew_when_another_comes() -> None:
    lookout = taught([70, 75, 78, 90])
    for _ in range(10 * Lookout.LEARN_FROM * Lookout.FULL_EVERY):
        looked_for(lookout, 40)
    assert all(looked_for(lookout, 40) == 41 for _ in range(100))
