import gc
import signal

from hypothesis import settings

# How long an example takes is the machine's affair: others may be at work on it.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# Thousands of tests and their modules stay to the end. A collector that walks through all of
# them again and again takes a twelfth of the time of `make unit`.
gc.disable()


def pytest_configure() -> None:
    # What a shell runs in the background ignores Ctrl-C, and so do the processes that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
