"""`cronhare db upgrade | backup`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.adapters.addresses import LedgerFile
from cronhare.domain.audit import Action

from ...node_identity import this_actor
from ..errors import Refusal, file_refusal
from ..output import print_line
from ..progress import working
from ..wiring import read_settings, said_ledger, wire

if TYPE_CHECKING:
    from ...container import Container


def upgrade_schema() -> None:
    """Bring the ledger's schema to this version; what is there stays there."""
    from cronhare.adapters.sql.dialects.sqlite_file import is_there  # noqa: PLC0415
    from cronhare.adapters.sql.migrations.upgrade import upgrade  # noqa: PLC0415 - `--help` does without

    container = wire()
    settings = container.settings()
    file = Path(settings.ledger.path) if isinstance(settings.ledger, LedgerFile) else None
    is_new = file is not None and not is_there(file)
    place = said_ledger(settings)
    with working(f"Upgrading {place}"):
        done = upgrade(container.engine())
    _write_down(container, done)
    if is_new:
        print_line(f"Made {place}: a new ledger, upgraded to {done[-1]}.")
    else:
        print_line(f"Upgraded {place} to {', '.join(done)}." if done else f"{place} is up to date.")


def backup(
    file: Annotated[Path, typer.Argument(help="The copy: a new file.", show_default=False)],
) -> None:
    """Copy a ledger in a file, also while others work on it; the copy is checked."""
    from cronhare.adapters.sql.dialects.sqlite_file import copy_to, is_there  # noqa: PLC0415

    settings, state = read_settings(), "Nothing was copied."
    ledger = settings.ledger
    if not isinstance(ledger, LedgerFile):
        tool = "pg_dump" if ledger.kind == "postgresql" else "mariadb-dump --single-transaction"
        advice = f"{state} Its own tool copies it: {tool} {ledger.database}"
        raise Refusal(f"{said_ledger(settings)} is on a server", advice=advice)
    if not is_there(path := Path(ledger.path)):
        raise Refusal(f"there is no ledger at {path.absolute()}", advice=state)
    try:
        with working(f"Copying {ledger}"):
            size = copy_to(path, file)
    except OSError as error:
        raise file_refusal(error, file, state) from error
    print_line(f"Copied {said_ledger(settings)} to {file}: {size:,} bytes, and it is sound.")


def _write_down(container: "Container", done: Sequence[str]) -> None:
    """Write an entry of the audit: after the change, as a new ledger has no place for it before."""
    if not done:
        return
    with container.audit_trail().change(
        this_actor(), Action.UPGRADE, "ledger", after={"revision": done[-1]}
    ):
        pass
