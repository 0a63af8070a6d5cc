from itertools import repeat
from pathlib import Path

import pytest

from cronhare.adapters.plain_files import read_plain_file

KERNEL_LOG = Path("/proc/kmsg")


@pytest.mark.skipif(not KERNEL_LOG.exists(), reason="a log of Linux")
def test_what_passes_for_a_plain_file_and_would_keep_us_waiting_is_refused() -> None:
    def read_on() -> None:  # what it has comes first
        for path in repeat(KERNEL_LOG, 1_000):
            read_plain_file(path, most=2**20)

    with pytest.raises(OSError, match=str(KERNEL_LOG)):
        read_on()
