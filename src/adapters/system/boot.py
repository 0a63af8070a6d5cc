"""When this host was booted, as the kernel tells."""

import time
from pathlib import Path
from typing import Final

from cronhare.domain.schedules.boot import Boot

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> Boot:
    """Name this boot of the host, and tell how long it is ago; containers have that of their host.

    Raises:
        OSError: the kernel does not tell.
    """
    name = BOOT_ID.read_text(encoding="ascii").strip()
    return Boot(name=name, ago=time.clock_gettime(time.CLOCK_BOOTTIME))
