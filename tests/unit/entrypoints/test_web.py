"""What a request brings, which way it came, and what the page offers to whom."""

import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from starlette.types import Scope as Asked

from cronhare.adapters.addresses import ListenAddress
from cronhare.domain.access import Scope
from cronhare.domain.execution import State
from cronhare.entrypoints.web.access import (
    COOKIE,
    SECURE_COOKIE,
    credentials_of,
    is_from_this_machine,
    local_path,
)
from cronhare.entrypoints.web.page import rendering
from cronhare.entrypoints.web.page.pages import View
from cronhare.entrypoints.web.page.routes import routes
from cronhare.entrypoints.web.page.views.schedules import newest_runs
from cronhare.entrypoints.web.server import bind
from cronhare.ports.records import Run

HOST = ListenAddress.parse("127.0.0.1:8520")


def scope(*headers: tuple[str, str]) -> Asked:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": "http", "path": "/", "headers": raw, "client": ("127.0.0.1", 1)}


@pytest.mark.parametrize(
    "cookies",
    [
        [f"{COOKIE}=mine; {COOKIE}=theirs"],
        [f"{COOKIE}=mine", f"{COOKIE}=theirs"],
        [f"{SECURE_COOKIE}=mine"],
        [f"x{COOKIE}=mine"],
        [],
    ],
)
def test_of_two_sessions_and_of_another_name_none_is_taken(cookies: list[str]) -> None:
    asked = scope(*(("cookie", each) for each in cookies))

    assert credentials_of(asked, https=False).session is None


@pytest.mark.parametrize("host", ["192.0.2.1:8520", None])
def test_a_name_or_another_address_of_this_machine_is_not_meant_from_here(host: str | None) -> None:
    named = None if host is None else ListenAddress.parse(host)

    assert not is_from_this_machine(scope(), host=named)
    assert not is_from_this_machine({**scope(), "client": ("192.0.2.1", 1)}, host=HOST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ui",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\x00",
        "/ui/\r\nSet-Cookie: a=b",
        "/ü",
        "/" + "a" * 3_000,
        "/ui/sign-out",
        "/ui/sign-in?next=/",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(text: str) -> None:
    assert local_path(text) == "/"


def test_small_answers_wait_for_no_acknowledgement() -> None:
    with bind(ListenAddress(ip_address("127.0.0.1"), 0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY for nothing else"


FOLDER = Path(rendering.__file__).parent
TEMPLATES = sorted(FOLDER.glob("templates/**/*.html"))

#: Who signs in or out needs no scope.
OF_EVERYBODY = ("/ui/sign-in", "/ui/sign-out")

#: Of `m.button`, a form of one button, unless it says another.
BY_DEFAULT = "operate"


def offered(text: str) -> Iterator[tuple[str, str]]:
    """Give what a template offers to change: the last word of its address, and what it needs."""
    for form in re.findall(r'<form method="post"[^>]*>', text):
        if any(path in form for path in OF_EVERYBODY) or "{{ action }}" in form:
            continue
        address = re.search(r'action="[^"]*?([a-z-]+)"', form)
        needs = re.search(r'data-needs="([a-z]+)"', form)
        yield (address[1] if address else "edit"), (needs[1] if needs else "")
    for button in re.findall(r"m\.button\(([^%}]*)", text):
        action = button.split(", ")[0]
        needs = re.search(r'needs="([a-z]+)"', button)
        for word in re.findall(r'/([a-z]+)"', action):
            yield word, needs[1] if needs else BY_DEFAULT
    for href in re.findall(r'data-needs="([a-z]+)" href="[^"]*?([a-z-]+)"', text):
        yield href[1], href[0]


@pytest.fixture
def needed() -> dict[str, str]:
    """The scope of each route that changes something, by the last word of its path."""
    views = (each for each in routes(MagicMock()) if isinstance(each, View))
    return {
        each.path.rsplit("/", 1)[-1]: str(each.declared.scope)
        for each in views
        if each.declared.method == "POST"
    }


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_what_changes_something_is_offered_to_those_alone_who_may(
    template: Path, needed: dict[str, str]
) -> None:
    for word, needs in offered(template.read_text()):
        assert needs == needed[word], word


def test_each_change_is_offered_somewhere(needed: dict[str, str]) -> None:
    there = {word for each in TEMPLATES for word, _ in offered(each.read_text())}

    assert there == needed.keys() - {"sign-in", "sign-out"}


def test_each_scope_sees_no_more_than_it_may() -> None:
    css = (FOLDER / "static" / "page.css").read_text()
    hidden = next(line for line in css.splitlines() if line.startswith("[data-scope"))

    assert f'[data-scope="{Scope.READ}"] [data-needs]' in hidden
    assert f'[data-scope="{Scope.OPERATE}"] [data-needs="{Scope.ADMIN}"]' in hidden
    assert "display: none" in hidden


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def run(id_: int, *, due: int, ended: int) -> Run:
    due_at = NOON + due * SECOND
    return Run(
        id=id_,
        state=State.SUCCEEDED,
        due_at=due_at,
        started_at=due_at,
        finished_at=NOON + ended * SECOND,
        attempt=1,
    )


def test_what_was_due_last_comes_first_also_if_it_ended_before_another() -> None:
    by_their_ends = [run(1, due=0, ended=1), run(3, due=2, ended=3), run(2, due=1, ended=9)]

    assert [each.id for each in newest_runs(by_their_ends, None, None)] == [3, 2, 1]
    assert [each.id for each in newest_runs(by_their_ends, NOON + SECOND, None)] == [3, 2]
