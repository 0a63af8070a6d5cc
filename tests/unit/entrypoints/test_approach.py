"""What a request brings, and which way it came."""

import pytest
from starlette.types import Scope

from cronhare.adapters.addresses import ListenAddress
from cronhare.entrypoints.web.access import COOKIE, SECURE_COOKIE, approach_of, credentials_of

HOST = ListenAddress.parse("127.0.0.1:8520")


def scope(*headers: tuple[str, str]) -> Scope:
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


def test_a_session_is_found_among_other_cookies() -> None:
    asked = scope(("cookie", f"theme=dark; {COOKIE}=mine"), ("cookie", "other=1"))

    assert credentials_of(asked, https=False).session == "mine"


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"],
)
def test_a_header_of_a_proxy_says_that_others_stand_behind_it(header: str) -> None:
    direct = approach_of(scope(), host=HOST)
    passed = approach_of(scope((header.lower(), "1.1 proxy")), host=HOST)

    assert (direct.is_loopback, direct.is_forwarded) == (True, False)
    assert passed.is_forwarded
