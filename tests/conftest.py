import gc
import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: others may be at work on it.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# Thousands of tests and their modules stay to the end. A collector that walks through all of
# them again and again takes a twelfth of the time of `make unit`.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(1_800))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # A shell's background leaves SIGINT ignored and `nohup` SIGHUP, and every process that a test
    # starts would inherit that. It does not inherit a handler: exec restores the default. With
    # this one the run itself still outlives its terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that a test calls within its process sets where all of that process logs."""
    root, ours = logging.getLogger(), logging.getLogger("cronhare")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)
