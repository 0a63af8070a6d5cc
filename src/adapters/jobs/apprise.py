"""The services of a `[notify.NAME]` that Apprise tells: addresses here, in a file or a variable."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cronhare.adapters.extras import ExtraMissing, require
from cronhare.adapters.plain_files import read_plain_file
from cronhare.domain.addresses import AppriseAddress
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.notify import MOST_ADDRESSES, ByApprise
from cronhare.domain.texts.echo import echo

#: Bytes of a file of addresses.
LARGEST_FILE: Final = 64 * 1024


def read_services(
    here: str | list[str] | None,
    *,
    file: Path | None,
    variable: str | None,
    faults: list[Fault],
) -> ByApprise:
    """Read them: one or more, in a *file* one a line. No fault shows any of an address."""
    field, given, lacking = "apprise", list[str](), None
    if file is not None:
        field, given = "apprise_file", _lines_of(file, faults)
    elif variable is not None:
        field = "apprise_env"
        # Not set, it is no fault of the file: who checks or lists it needs no secret.
        if (text := os.environ.get(variable)) is None:
            lacking = f"apprise_env names {echo(variable)}, a variable that is not set"
        else:
            given = text.split()
    else:
        given = [here] if isinstance(here, str) else here or []
    if lacking is None and not 0 < len(given) <= MOST_ADDRESSES:
        if not any(fault.field == field for fault in faults):
            faults.append(Fault(field, f"must be 1 to {MOST_ADDRESSES} addresses of services"))
        given = []
    services = tuple(dict.fromkeys(_addresses(field, given, faults)))
    return ByApprise(services=services, lacks=lacking or _missing_library())


def _lines_of(path: Path, faults: list[Fault]) -> list[str]:
    try:
        content = read_plain_file(path, most=LARGEST_FILE)
        lines = map(str.strip, content[: LARGEST_FILE + 1].decode().splitlines())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        faults.append(Fault("apprise_file", f"cannot be read: {why}"))
        return []
    return [line for line in lines if line and not line.startswith("#")]


def _addresses(field: str, given: list[str], faults: list[Fault]) -> Iterator[AppriseAddress]:
    for number, text in enumerate(given, start=1):
        try:
            yield AppriseAddress.parse(text)
        except ValueError as error:
            which = f"address {number} " if len(given) > 1 else ""
            faults.append(Fault(field, f"{which}{error}"))


def _missing_library() -> str | None:
    try:
        require("notify")
    except ExtraMissing as missing:
        return str(missing)
    return None
