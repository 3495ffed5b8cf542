"""Rows of which the repetitions do not agree on who is ahead.

Three repetitions tell who is ahead where the difference is large. Where it is small next to what the machine does, they
contradict each other, and the middle of three is a coin that was thrown. Such rows are measured more often, whichever
way they seem to go, in what their goal is about: the rate of durable brokers, the CPU time of those that leave the
disk to the system.
"""

from collections.abc import Sequence
from dataclasses import replace

from bench.plan import Plan, Run

ITEMS = frozenset({"throughput", "java", "requests"})
"""Those whose rows are judged one by one, and are cheap enough."""
MORE = 6
"""Repetitions of such a row, beyond those of the plan."""
_JUDGED = (("ottla", "kafka-durable", "rate"), ("ottla-os", "kafka", "broker_cpu_us"))


def undecided(runs: Sequence[Run]) -> list[str]:
    """Workloads, in the order in which they were measured."""
    return [workload for workload in dict.fromkeys(run.workload for run in runs) if not _agree(runs, workload)]


def _agree(runs: Sequence[Run], workload: str) -> bool:
    return all(len(_sides(runs, workload, *judged)) < 2 for judged in _JUDGED)


def _sides(runs: Sequence[Run], workload: str, ours: str, theirs: str, figure: str) -> set[bool]:
    """Of each repetition that has both: whether ours has more."""
    values = {
        (run.system, run.repetition): run.figures[figure]
        for run in runs
        if run.workload == workload and figure in run.figures
    }
    return {
        value > values[theirs, repetition]
        for (system, repetition), value in values.items()
        if system == ours and (theirs, repetition) in values
    }


def more(plan: Plan, runs: Sequence[Run]) -> Plan | None:
    """What is still to be measured after these runs of a plan; None if that is nothing."""
    done = max((run.repetition for run in runs), default=-1) + 1
    workloads = undecided(runs)
    repetitions = plan.repetitions + MORE - done
    if not workloads or repetitions <= 0:
        return None
    return replace(plan, workloads=workloads, repetitions=repetitions, first_repetition=done)
