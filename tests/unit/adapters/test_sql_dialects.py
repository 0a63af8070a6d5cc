"""Which databases a ledger can be kept in, and that no other is taken for one of them."""

import pytest
from sqlalchemy.dialects import oracle

from cronhare.adapters.sql.dialects import NAMES, columns_in, open_engine
from cronhare.adapters.sql.schema.tables import executions
from cronhare.domain.addresses.ledger import KINDS


def test_each_database_on_a_server_has_its_columns() -> None:
    assert {kind.name for kind in KINDS} == {*NAMES} - {"sqlite"}
    assert all(columns_in(name) for name in NAMES)


def test_the_columns_of_an_unknown_database_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"no ledger can be kept in oracle; .*sqlite.*mysql"):
        columns_in("oracle")
    with pytest.raises(ValueError, match="no ledger can be kept in oracle"):
        executions.c.due_at.type.dialect_impl(oracle.dialect())  # type: ignore[no-untyped-call]


def test_an_unknown_url_is_refused_with_one_of_each_kind() -> None:
    with pytest.raises(ValueError, match=r"must be like \"sqlite:///.*\"mysql\+pymysql://"):
        open_engine("oracle://user:password@host/database")
