"""How fast pages and lists are beside 100,000 schedules and 1,000,000 executions.

    .venv/bin/python benchmarks/bench_web.py [SECTION …]

Sections: questions (straight to the use cases), pages and lists (over HTTP, from `cronhare web`),
commands, dispatch (with ten pages open and with none), retention. On SQLite, filled by
`a_full_ledger.py`, and thrown away; BENCH_LEDGER=mariadb or postgresql starts a server instead, and
BENCH_LEDGER=URL names a ledger that is filled already: for questions, pages and lists only.
Figures of a machine that others use too are to be compared within one run.
"""

from collections.abc import Callable, Iterable

import web_addresses
from figures import Figure
from full_ledger import FullLedger, full_ledger
from open_pages import beside_open_pages
from production import opened
from questions import measure, questions
from retaining import retention
from sections import run
from typed import commands
from web_client import ask_often, cronhare_web

from cronhare.entrypoints.container import Container

#: Milliseconds that a page or a list may take.
GOAL = 200.0


def ask(ledger: FullLedger) -> list[Figure]:
    """Ask the use cases all that lists and pages ask."""
    with opened(ledger.url, "memory://") as container:
        found = [measure(what, how) for what, how in questions(container).items()]
    return [
        Figure(
            what=each.what, ours=each.median, unit="ms", goal=GOAL,
            note=f"CPU {each.cpu:.1f} ms, worst {each.worst:.0f} ms, {each.runs} runs",
        )
        for each in found
    ]  # fmt: skip


def pages(ledger: FullLedger) -> list[Figure]:
    """Ask `cronhare web` for each page."""
    return _served(ledger, web_addresses.pages)


def lists(ledger: FullLedger) -> list[Figure]:
    """Ask `cronhare web` for each list of the API."""
    return _served(ledger, web_addresses.lists)


def _served(ledger: FullLedger, addresses: Callable[[Container], Iterable[str]]) -> list[Figure]:
    with opened(ledger.url, "memory://") as container:
        asked = [*addresses(container)]
    with cronhare_web(ledger.url, ledger.folder) as (port, pid):
        found = [ask_often(port, pid, address) for address in asked]
    return [
        Figure(
            what=each.address, ours=each.median, unit="ms", goal=GOAL,
            note=f"p95 {each.p95:.0f} ms, CPU {each.cpu:.0f} ms, {each.bytes / 1024:.0f} KiB"
            + ("" if each.status == 200 else f", HTTP {each.status}"),
        )
        for each in found
    ]  # fmt: skip


SECTIONS = {
    "questions": ask,
    "pages": pages,
    "lists": lists,
    "commands": commands,
    "dispatch": beside_open_pages,
    "retention": retention,
}

if __name__ == "__main__":
    run(__doc__, SECTIONS, full_ledger)
