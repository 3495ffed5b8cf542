from ottla.storage.removals import REMOVALS_PER_JOB, Removals
from ottla.testing.disk import CrashingDisk, Fault, Operation


def test_nothing_is_removed_before_its_time() -> None:
    disk = CrashingDisk()
    disk.make_directory("t-0.x-delete")
    removals = Removals(disk)
    removals.add_tree("t-0.x-delete", due_ms=1_100)

    assert removals.job(1_099) is None
    job = removals.job(1_100)
    assert job is not None
    job.run()
    assert disk.list("") == []
    assert removals.job(9_999) is None


def test_many_are_removed_some_at_a_time() -> None:
    disk = CrashingDisk()
    removals = Removals(disk)
    for number in range(REMOVALS_PER_JOB + 1):
        removals.add_tree(f"t-{number}", due_ms=0)

    assert removals.job(0) is not None
    assert len(removals) == 1


def test_a_directory_loses_nothing_while_a_crash_could_give_it_its_old_name_back() -> None:
    disk = CrashingDisk()
    disk.make_directory("t-0.x-delete")
    removals = Removals(disk)
    removals.add_tree("t-0.x-delete", due_ms=0)
    seen: list[Operation] = []
    disk.before_operation = lambda operation, path: seen.append(operation)
    job = removals.job(0)
    assert job is not None
    job.run()

    assert seen == [Operation.SYNC_DIRECTORY, Operation.REMOVE]


def test_a_removal_that_fails_harms_nobody() -> None:
    disk = CrashingDisk()
    disk.make_directory("t-0.x-delete")
    disk.faults.append(Fault(operation=Operation.REMOVE))
    removals = Removals(disk)
    removals.add_tree("t-0.x-delete", due_ms=0)
    job = removals.job(0)
    assert job is not None
    job.run()

    assert disk.exists("t-0.x-delete")
