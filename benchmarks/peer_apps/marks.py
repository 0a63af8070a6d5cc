"""What the peers' tasks do: leave a mark each, or run `/bin/true` and leave one.

A mark is 8 bytes in a file of this process: the moment, or the time since the message was sent.
"""

import os
import struct
import subprocess
import time
from pathlib import Path

_files: dict[int, int] = {}


def mark(sent: int) -> None:
    """Note the monotonic nanoseconds since *sent*; 0 notes the moment itself."""
    pid = os.getpid()
    if pid not in _files:
        path = Path(os.environ["PEER_MARKS"], str(pid))
        _files[pid] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(_files[pid], struct.pack("<q", time.monotonic_ns() - sent))


def run_true(sent: int) -> None:
    """Run a child, as the peers' manuals show it."""
    subprocess.run(["/bin/true"], check=True)
    mark(sent)
