"""The interpreter of an app: imports it once, and forks a child for each attempt of its tasks.

It is a warden (adapters/process/warden.py) in a process that has the app: fence, limits, signals,
remnants and the frames to the worker are the same. Only the last step of a child differs: it calls
a task where the other becomes a command.

A fork has one thread of its parent, and shares its connections. So before the first one, it is
proved that the import began no thread, opened no socket and started no process; then a frame
`{"ready": true}` follows. Otherwise one of

    {"unsafe": why}     the tasks of this app have to be processes of their own
    {"failed": why}     the app cannot be imported

and this process ends.
"""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from functools import partial
from typing import NoReturn

from cronhare.adapters.process import warden
from cronhare.adapters.process.warden import Frame

from . import calling
from .app import App
from .loading import ImportFailed, Watch, load

#: Sent to all of a service at its end: the worker decides what becomes of its attempts.
_FOR_OTHERS = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}

_ADVICE = (
    "a fork copies neither its locks nor its connections safely. Do that within the tasks, or at "
    "first use; until then they run as processes that import the app each time"
)


def main(inherited: str, folder: str, place: str) -> None:
    """Run as `python -m cronhare.entrypoints.python.zygote SOCKET FOLDER MODULE:APP`."""
    control = warden.set_up_descriptors(int(inherited))
    # What forks of us leave is known by this mark, though it is no variable of theirs.
    os.environ.pop("CRON_PARAMS_FILE", None)
    warden.prctl(warden.PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # while it imports
    signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_OTHERS)
    try:
        with Watch() as watch:
            app = load(place)
        faults = watch.faults(place)
        answer: Frame = {"unsafe": f"{'; '.join(faults)}: {_ADVICE}"} if faults else {"ready": True}
    except ImportFailed as error:
        answer = {"failed": str(error)}
    sys.stdout.flush()
    ...
