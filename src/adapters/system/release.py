"""What this program is, and by which zone data it reads times: replicas may differ in both."""

import zoneinfo
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path


def release() -> str:
    """Name both, to stand beside what could not be planned with them."""
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
