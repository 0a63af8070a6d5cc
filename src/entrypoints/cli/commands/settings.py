"""`cronhare settings`."""

from contextlib import suppress
from typing import Final

from cronhare.adapters.addresses import LedgerFile

from ...settings.bounds import IN_A_WORKER, IN_UP
from ...settings.settings import Settings, SettingsView
from ...settings.sources import settings_files
from ..output import Json, print_json, print_line, table
from ..wiring import wire_with


def settings(*, json: Json = False) -> None:
    """Show each setting, and where it came from; passwords are left out."""
    found = Settings.read()
    view = SettingsView.of(found)
    if json:
        print_json(view)
    else:
        _print_table(view)
    if not (isinstance(found.ledger, LedgerFile) and found.in_memory):
        wire_with(found)  # which says what is wrong with the addresses of servers


#: What holds where these are not set.
_UNSET: Final = {"concurrency": f"up {IN_UP}, worker {IN_A_WORKER}"}


def _print_table(view: SettingsView) -> None:
    rows = [(each.name, _text(each.name, each.value), each.source) for each in view.settings]
    table("SETTING", "VALUE", "FROM", rows=rows, empty="There are none.")
    looked = ", ".join(map(str, settings_files()))
    print_line(f"Settings file: {view.file or f'none; looked for {looked}'}")
    for unknown in view.unknown:
        print_line(unknown, style="yellow")


def _text(name: str, value: object) -> object:
    if value is None:
        return _UNSET.get(name)
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(value)
        case 0 if _may_be_off(name):
            return "off"
        case float():
            return f"{value:g}"
    return value


def _may_be_off(name: str) -> bool:
    with suppress(ValueError):
        return bool(Settings.declared()[name][1].form("off") == 0)
    return False
