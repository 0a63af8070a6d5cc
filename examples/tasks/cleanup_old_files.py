"""Remove files that have grown old.

Parameters: `folder`, relative to the examples folder; `days`, 30 unless given; `pattern`, as in
`*.log` or `**/*.log`; `dry_run`, to be told only; `anywhere`, to allow a folder outside of var.
"""

import time
from pathlib import Path
from typing import Any

from cronhare import task

EXAMPLES = Path(__file__).resolve().parent.parent
VAR = EXAMPLES / "var"
DAY = 24 * 60 * 60


def find_folder(params: dict[str, Any]) -> Path:
    """Give the folder to clean, or refuse one where a slip would be dear."""
    name = params.get("folder")
    if not name or not isinstance(name, str):
        raise task.PermanentError('no folder is given, as in {"folder": "var/reports"}')
    folder = (EXAMPLES / name).resolve()
    if folder == Path(folder.anchor):
        raise task.PermanentError("the root of the file system is not cleaned up")
    if not folder.is_relative_to(VAR) and params.get("anywhere") is not True:
        raise task.PermanentError(f'{folder} is outside of {VAR}: allow it with "anywhere": true')
    return folder


def find_days(params: dict[str, Any]) -> float:
    """Give the age from which a file is old."""
    days = params.get("days", 30)
    if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
        raise task.PermanentError(f"days is {days!r}, it has to be a number, 0 or more")
    return days


def find_old(folder: Path, pattern: str, before: float) -> list[Path]:
    """List the regular files last changed *before*; links are neither followed nor removed."""
    if ".." in Path(pattern).parts or Path(pattern).is_absolute():
        raise task.PermanentError(f"the pattern {pattern!r} leads out of the folder")
    return sorted(
        path
        for path in folder.glob(pattern or "*")
        if path.is_file()
        and path.resolve() == path  # no link, nor behind one
        and path.stat().st_mtime < before
    )


def main(params: dict[str, Any]) -> None:
    """Remove what is old, and say what was removed."""
    folder, days = find_folder(params), find_days(params)
    dry_run = bool(params.get("dry_run", False))
    old = find_old(folder, params.get("pattern", "*"), time.time() - days * DAY)
    freed = 0
    for path in old:
        size = path.stat().st_size
        if not dry_run:
            path.unlink(missing_ok=True)
        freed += size
        print(
            f"{'would remove' if dry_run else 'removed'} {path.relative_to(folder)}, {size:,} bytes"
        )
    verb = "would be removed" if dry_run else "removed"
    print(f"{len(old)} files older than {days:g} days {verb} in {folder}, {freed:,} bytes")


if __name__ == "__main__":
    task.run(main)
