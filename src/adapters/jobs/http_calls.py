"""From the `url` of a `[tasks.NAME]` table, and what goes with it, to a request."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cronhare.domain.addresses import WebAddress
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.http_call import (
    METHODS,
    MOST_HEADERS,
    OUR_HEADERS,
    STATUSES,
    SUCCESS,
    HttpCall,
)
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.http_header import fault_of_name, fault_of_value

from .fields import out_of_place
from .schema import TaskTable

#: The most statuses and classes of them that a table names.
MOST_STATUSES: Final = 100

_CLASS: Final = re.compile(r"([1-5])xx")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")

#: Fields that are for a request alone, and those that are for a command.
_OF_A_REQUEST: Final = ("method", "headers", "headers_env", "success")
_OF_A_COMMAND: Final = ("command", "cwd", "env", "pass_env", "user")


def read_call(table: TaskTable, faults: list[Fault]) -> HttpCall | None:
    """Make the request of a task that has a `url`; None for any other, or one at fault."""
    if table.url is None:
        faults += out_of_place(table, _OF_A_REQUEST, "is for a url; this task has none")
        return None
    found = [*out_of_place(table, _OF_A_COMMAND, "is for a command; this task has a url")]
    found += _faults_of_headers("headers", table.headers or {}, fault_of_value)
    found += _faults_of_headers("headers_env", table.headers_env or {}, _fault_of_variable)
    found += _too_many(table.headers or {}, table.headers_env or {})
    found += _doubled(table.headers or {}, table.headers_env or {})
    address = _address(table.url, found)
    success = _statuses(table.success, found)
    faults += found
    if address is None:
        return None
    return HttpCall(
        address=address,
        method=table.method or METHODS[0],
        headers=table.headers or {},
        headers_env=table.headers_env or {},
        success=success,
    )


def _address(url: str, faults: list[Fault]) -> WebAddress | None:
    try:
        return WebAddress.parse(url)
    except ValueError as error:
        faults.append(Fault("url", str(error)))  # it quotes nothing: a secret may stand in it
        return None


def _statuses(value: object, faults: list[Fault]) -> frozenset[int]:
    """Read `[200, "3xx"]`."""
    if value is None:
        return SUCCESS
    if not isinstance(value, list) or not 0 < len(value) <= MOST_STATUSES:
        faults.append(Fault("success", f'a list such as ["2xx", 304], {MOST_STATUSES} at most'))
        return SUCCESS
    statuses: set[int] = set()
    for one in value:
        if isinstance(one, int) and not isinstance(one, bool) and one in STATUSES:
            statuses.add(one)
        elif isinstance(one, str) and (named := _CLASS.fullmatch(one)):
            first = int(named[1]) * 100
            statuses |= set(range(first, first + 100))
        else:
            allowed = f'{STATUSES[0]}-{STATUSES[-1]}, nor like "2xx"'
            faults.append(Fault("success", f"{echo(one)} is no status: neither {allowed}"))
    return frozenset(statuses)


def _faults_of_headers(
    field: str, headers: Mapping[str, str], fault_of: Callable[[str], str | None]
) -> Iterator[Fault]:
    for name, value in headers.items():
        if (why := fault_of_name(name)) is not None:
            yield Fault(field, f"{echo(name)} {why}")
        elif name.lower() in OUR_HEADERS:
            yield Fault(field, f"{name} is said by cronhare itself")
        elif (problem := fault_of(value)) is not None:
            yield Fault(f"{field}.{name}", problem)


def _fault_of_variable(value: str) -> str | None:
    return None if _VARIABLE.fullmatch(value) else f"{echo(value)} cannot name a variable"


def _too_many(headers: Mapping[str, str], from_env: Mapping[str, str]) -> Iterator[Fault]:
    if (many := len(headers) + len(from_env)) > MOST_HEADERS:
        yield Fault("headers", f"{many} with those of headers_env: {MOST_HEADERS} are allowed")


def _doubled(headers: Mapping[str, str], from_env: Mapping[str, str]) -> Iterator[Fault]:
    names = [name.lower() for name in (*headers, *from_env)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("headers", f"{echo(name)} is given twice")
