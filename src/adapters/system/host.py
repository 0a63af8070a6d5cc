"""Facts about this host and program, and the privacy of this process."""

import ctypes
import time
import zoneinfo
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Final

from cronhare.domain.schedules.keys import Boot

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_PR_SET_DUMPABLE = 4


def this_boot() -> Boot:
    """Name this boot of the host, and its age; a container has its host's.

    Raises:
        OSError: the kernel does not name it.
    """
    name = BOOT_ID.read_text(encoding="ascii").strip()
    return Boot(name=name, ago=time.clock_gettime(time.CLOCK_BOOTTIME))


def be_private() -> None:
    """Let no process of our user read our memory, our environment or our descriptors.

    Tasks run as that user, unless they name another, and we hold the passwords of broker and
    database. Root may look all the same. Nor does a core file hold them.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def release() -> str:
    """Name our version and our zone data, in which replicas may differ."""
    return f"cronhare {metadata.version('cronhare')}, zone data {_zone_data()}"


def _zone_data() -> str:
    """Look where `zoneinfo` does, in its order: the system's folders, then the package."""
    for folder in map(Path, zoneinfo.TZPATH):
        with suppress(OSError, UnicodeError), (folder / "tzdata.zi").open() as file:
            return file.readline(64).removeprefix("# version").strip()
        if folder.is_dir():
            return f"of {folder}"
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return "none"
