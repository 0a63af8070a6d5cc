"""`cronhare settings`: each value, and where it came from."""

from collections.abc import Iterator
from datetime import timedelta

import attrs

from cronhare.domain.addresses import BrokerServer

from ...container import Container
from ...settings.settings import MEMORY, Settings
from ...settings.sources import settings_files
from ..output import Json, print_json, print_line, table
from ..wiring import usable


@attrs.frozen(kw_only=True)
class Shown:
    """A setting as it is printed."""

    name: str
    value: str | None
    source: str


def settings(*, json: Json = False) -> None:
    """Show each setting, and where it came from; passwords are left out."""
    found = Settings.read()
    if json:
        _print_json(found)
    else:
        _print_table(found)
    usable(Container(settings=found))


def _print_json(found: Settings) -> None:
    print_json(
        {
            "file": None if found.sources.file is None else str(found.sources.file),
            "settings": [attrs.asdict(each) for each in _shown(found)],
            "unknown": [str(unknown) for unknown in found.sources.unknown],
        }
    )


def _print_table(found: Settings) -> None:
    rows = [(each.name, each.value, each.source) for each in _shown(found)]
    table("SETTING", "VALUE", "FROM", rows=rows, empty="There are none.")
    looked = ", ".join(map(str, settings_files()))
    print_line(f"Settings file: {found.sources.file or f'none; looked for {looked}'}")
    for unknown in found.sources.unknown:
        print_line(str(unknown), style="yellow")


def _shown(found: Settings) -> Iterator[Shown]:
    for name, (field, declared) in Settings.declared().items():
        told = found.sources.found.get(name)
        value = getattr(found, field)
        yield Shown(
            name=name,
            value=_secret(name, found) if declared.secret else _text(value),
            source="default" if told is None else told.source,
        )


def _secret(name: str, found: Settings) -> str | None:
    """Show of an address what is none, and of any other secret whether it is set."""
    if name == "database_url":
        return str(found.ledger)
    if name == "broker_url":
        return MEMORY if found.broker_url == MEMORY else str(BrokerServer.parse(found.broker_url))
    return "***" if name in found.sources.found else None


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(map(str, value))
        case timedelta():
            return f"{value.total_seconds():g}"
    return str(value)
