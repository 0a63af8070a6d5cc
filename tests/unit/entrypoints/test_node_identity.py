"""What a process calls itself."""

import socket

import pytest

from cronhare.domain.nodes import read_node
from cronhare.entrypoints.node_identity import this_node


@pytest.mark.parametrize("name", ["\udcffhost", "two\nlines", "", "\x1b" * 64])
def test_a_host_name_that_no_ledger_takes_is_written_so_that_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    node = this_node()

    assert str(node).encode().decode().isprintable()
    assert read_node(str(node)) == node
    assert len(str(node)) <= 255


def test_an_honest_host_name_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "büro-1")

    assert this_node().host == "büro-1"
