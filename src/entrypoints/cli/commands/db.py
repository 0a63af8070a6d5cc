"""`cronhare db upgrade`."""

from pathlib import Path

from cronhare.domain.addresses import LedgerFile

from ..output import print_line
from ..wiring import said_ledger, wire


def upgrade_schema() -> None:
    """Bring the ledger's schema to this version; what is there stays there."""
    from cronhare.adapters.sql import upgrade  # noqa: PLC0415 - `--help` does without
    from cronhare.adapters.sql.dialects.sqlite.file import is_there  # noqa: PLC0415

    container = wire()
    settings = container.settings()
    file = Path(settings.ledger.path) if isinstance(settings.ledger, LedgerFile) else None
    is_new = file is not None and not is_there(file)
    done = upgrade(container.engine())
    place = said_ledger(settings)
    if is_new:
        print_line(f"Made {place}: a new ledger, upgraded to {done[-1]}.")
    else:
        print_line(f"Upgraded {place} to {', '.join(done)}." if done else f"{place} is up to date.")
