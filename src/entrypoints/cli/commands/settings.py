"""`cronhare settings`."""

from cronhare.domain.addresses import LedgerFile

from ...settings.settings import Settings
from ...settings.settings_file import settings_files
from ...settings.view import SettingsView
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
    if not (isinstance(found.ledger, LedgerFile) and found.broker_kind == "memory"):
        wire_with(found)  # which says what is wrong with the addresses of servers


def _print_table(view: SettingsView) -> None:
    rows = [(each.name, _text(each.value), each.source) for each in view.settings]
    table("SETTING", "VALUE", "FROM", rows=rows, empty="There are none.")
    looked = ", ".join(map(str, settings_files()))
    print_line(f"Settings file: {view.file or f'none; looked for {looked}'}")
    for unknown in view.unknown:
        print_line(unknown, style="yellow")


def _text(value: object) -> object:
    """Write a value as a setting is written."""
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(value)
        case float():
            return f"{value:g}"
    return value
