"""What a request brings, which way it came, and what the page offers to whom."""

import socket
from ipaddress import ip_address

import pytest
from starlette.types import Scope as Asked

from cronhare.adapters.addresses import ListenAddress
from cronhare.entrypoints.web.access import (
    COOKIE,
    SECURE_COOKIE,
    credentials_of,
    is_from_this_machine,
    local_path,
)
from cronhare.entrypoints.web.server import bind

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
