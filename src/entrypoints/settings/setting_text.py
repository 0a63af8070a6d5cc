"""A setting's text and the place where it was found, and the small files that hold settings."""

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import attrs

from cronhare.adapters.plain_files import read_plain_file

#: A setting, or a file of them, has so many bytes at most.
LONGEST_FILE: Final = 65_536


@attrs.frozen(kw_only=True)
class SettingText:
    """A setting's text, and where it was found. *name* is what that place calls it."""

    name: str
    text: str = attrs.field(repr=False)
    source: str


def add_from_file(
    found: dict[str, SettingText], faults: list[str], key: str, name: str, path: Path
) -> None:
    """Add the text in the file that *name* names; or to *faults* why there is none."""
    try:
        text = read_text(path).strip()
    except ValueError as error:
        faults.append(f"{name}: {path} {error}")
        return
    if not text:
        faults.append(f"{name}: {path} is empty")
    else:
        found[key] = SettingText(name=name, text=text, source=str(path))


def read_text(path: Path) -> str:
    """Read a small file of text.

    Raises:
        ValueError: it cannot be read; its text continues the path.
    """
    try:
        content = read_plain_file(path, most=LONGEST_FILE)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(content) > LONGEST_FILE:
        raise ValueError(f"is longer than {LONGEST_FILE:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8 text") from None


def closest(name: str, known: Collection[str]) -> str | None:
    """Give the known name that was probably meant."""
    close = get_close_matches(name[:64], sorted(known), n=1, cutoff=0.6)
    return close[0] if close else None
