"""Which databases a ledger can be kept in."""

from cronhare.adapters.sql.dialects import columns_in
from cronhare.domain.addresses.servers import KINDS


def test_each_database_has_its_columns() -> None:
    assert all(columns_in(name) for name in ("sqlite", *(kind.name for kind in KINDS)))
