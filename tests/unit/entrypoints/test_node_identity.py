"""What a process calls itself."""

import os
import pwd
import socket

import pytest

from cronhare.domain.nodes import read_node
from cronhare.entrypoints.cli.commands.replays import this_author
from cronhare.entrypoints.node_identity import this_actor, this_node, this_user


@pytest.mark.parametrize("name", ["\udcffhost", "two\nlines", "", "\x1b" * 64])
def test_a_host_name_that_no_ledger_takes_is_written_so_that_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    node = this_node()

    assert str(node).encode().decode().isprintable()
    assert read_node(str(node)) == node
    assert len(str(node)) <= 255


def test_no_variable_of_the_environment_says_whose_process_this_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody@prod")

    user = pwd.getpwuid(os.getuid()).pw_name
    assert (this_user(), this_author(None)) == (user, user)
    assert this_actor().name.startswith(f"{user}@")
