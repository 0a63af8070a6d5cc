"""The revisions of the ledger's schema, in their order: one for each file of `versions`."""

from pathlib import Path
from typing import Final

from cronhare.adapters.sql.migrations import versions

REVISIONS: Final = sorted(path.name[:4] for path in Path(versions.__path__[0]).glob("[0-9]*.py"))
