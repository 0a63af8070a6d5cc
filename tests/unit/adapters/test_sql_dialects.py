"""Which databases a ledger can be kept in."""

from cronhare.adapters.addresses import KINDS
from cronhare.adapters.sql.dialects import columns_in


def test_each_database_has_its_columns() -> None:
    assert all(columns_in(name) for name in ("sqlite", *KINDS))
