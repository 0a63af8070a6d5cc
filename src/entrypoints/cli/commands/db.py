"""`cronhare db upgrade`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cronhare.domain.access.audit import Action
from cronhare.domain.addresses import LedgerFile

from ...node_identity import this_actor
from ..output import print_line
from ..progress import working
from ..wiring import said_ledger, wire

if TYPE_CHECKING:
    from ...container import Container


def upgrade_schema() -> None:
    """Bring the ledger's schema to this version; what is there stays there."""
    from cronhare.adapters.sql import upgrade  # noqa: PLC0415 - `--help` does without
    from cronhare.adapters.sql.dialects.sqlite.file import is_there  # noqa: PLC0415

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


def _write_down(container: "Container", done: Sequence[str]) -> None:
    """Write an entry of the audit: after the change, as an older ledger has no place for it."""
    if not done:
        return
    now = container.ledger_time().now()
    with container.audit_trail().change(
        this_actor(), Action.UPGRADE, "ledger", now=now, after={"revision": done[-1]}
    ):
        pass
