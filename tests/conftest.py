"""Options of the whole test suite."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# Time by the clock on the wall says how busy the machine is, not whether the code is right: what must be fast is
# measured by bench/. Nothing else differs from Hypothesis's own profile (the one for CI where it finds itself there).
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

# A shell that runs the suite in the background has it ignore Ctrl-C, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        help="write what happened into tests/scenarios instead of checking it: the diff is the review",
    )
