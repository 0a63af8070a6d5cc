"""What an open page asks for again and again, over real sockets."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports.runner import Captured, Written
from tests.actors import ADA
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import Ledger, sql_ledger
from tests.integration.web import Site, site

LIVE = {"X-Live": "1"}


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    return Container(settings=on_sqlite)


@pytest.fixture
def ledger(container: Container) -> Ledger:
    begun = container.claims().now() - timedelta(hours=1)
    return sql_ledger(FrozenClock(begun), container.engine())


@pytest.fixture
def web(container: Container) -> Iterator[Site]:
    with site(container) as found:
        yield found


def test_who_looks_at_an_open_page_shares_the_answer_and_who_comes_anew_sees_the_newest(
    web: Site, container: Container, ledger: Ledger
) -> None:
    ledger.claimed("nightly")
    address = "/ui/schedules/nightly"
    first = web.get(address, **LIVE).text
    assert {"standing", "state", "calendar", "runs"} < {*re.findall(r'data-part="(\w+)"', first)}
    assert 'data-live="5"' in first

    container.administrator().pause({"nightly": None}, by="ada", reason="moving", actor=ADA)

    assert "moving" not in web.get(address, **LIVE).text
    assert "moving" in web.get(address).text
    assert "data-live" not in web.get("/ui/alerts?after=held-0-failed").text
    assert (
        "data-live"
        not in web.get(f"/ui/executions/{ledger.succeeded(ledger.claimed('b')).id}").text
    )


def written(web: Site, execution_id: int, after: str = "") -> tuple[list[str], str]:
    """Give the lines after a place in an output, and the next place."""
    page = web.get(f"/ui/executions/{execution_id}/output?after={after}").text
    [place] = re.findall(r'data-after="([^"]*)"', page)
    return re.findall(r'<span class="line \w+">(.*)\n', page), place


def test_output_comes_line_by_line_and_goes_on_where_it_was_left(web: Site, ledger: Ledger) -> None:
    started = ledger.running("a")

    def write(text: str) -> None:
        stdout = Captured(head=text, bytes=len(text), lines=text.count("\n"))
        one = Written(execution_id=started.id, attempt=1, stdout=stdout)
        ledger.attempts.keep_written([one], now=ledger.now, node="ant")

    assert written(web, started.id) == ([], "1-0-0")
    write("one\ntw")
    lines, place = written(web, started.id, "1-0-0")
    assert (lines, place) == (["attempt 1", "one"], "1-1-0")
    assert written(web, started.id, place) == ([], place)
    write("one\n</script>two\n")
    assert written(web, started.id, place) == (["&lt;/script&gt;two"], "1-2-0")
    assert web.get(f"/ui/executions/{started.id}").text.count('data-after="1-2-0"') == 1
    assert web.get(f"/ui/executions/{started.id}/output?after=x").status == 422
    assert web.get("/ui/executions/99/output").status == 404
