"""The views of what ran, failed and waits, over a ledger that has some of each; and open pages."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import attrs
import pytest

from cronhare.domain.events.alerts import raised
from cronhare.domain.events.judging import alert
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.rules import Rule
from cronhare.domain.execution import State
from cronhare.domain.nodes import NodeReport
from cronhare.domain.retries.retry import Fail, Quarantine
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.page.rendering import WAYS
from cronhare.ports.runner import Captured, Written
from tests.actors import ADA
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import CRASH, IN_30_S, NOON, Ledger, sql_ledger
from tests.integration.web import FORM, Answer, Site, site

HOUR = timedelta(hours=1)
SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>"
ANT = NodeReport(
    name="ant-1-0a1b2c3d4e5f6071",
    role="worker",
    host="ant",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
    queues=("cron_scheduler",),
    concurrency=8,
    running=1,
    consuming=True,
)


@attrs.frozen
class House:
    """A site, and the ledger that it shows."""

    web: Site
    ledger: Ledger
    container: Container

    def send(self, path: str, **fields: str) -> Answer:
        """Send a form of a page of this site."""
        origin = {"Origin": f"http://127.0.0.1:{self.web.port}"}
        return self.web.ask("POST", path, urlencode(fields), {**FORM, **origin})

    def see(self, path: str, *, status: int = 200) -> str:
        """Look at a page that is there, and executes nothing of what was stored."""
        found = self.web.get(path)
        assert found.status == status, found.text
        assert "<script>alert" not in found.text
        assert "<img" not in found.text
        assert not re.search(r"\sstyle=|\son\w+=", re.sub(r"&lt;.*?&gt;", "", found.text)), path
        return found.text


@pytest.fixture
def house(on_sqlite: Settings) -> Iterator[House]:
    container = Container(settings=on_sqlite)
    # What the ledger is given happened a while ago, and within an hour: it lets minutes pass.
    began = (container.claims().now() - HOUR).replace(minute=0, second=0, microsecond=0)
    ledger = sql_ledger(FrozenClock(began), container.engine())
    with site(container) as web:
        yield House(web, ledger, container)


def test_the_story_of_an_execution_is_told_with_its_retries(house: House) -> None:
    retried = house.ledger.finished(house.ledger.claimed("nightly"), IN_30_S)

    page = house.see(f"/ui/executions/{retried.id}")

    assert "Attempt 1" in page
    assert "to be tried again" in page
    assert "retry 1/3: the server did not answer" in page
    assert f'data-output="/ui/executions/{retried.id}/output"' in page
    assert f'action="/ui/executions/{retried.id}/cancel"' in page


def test_executions_are_listed_by_what_is_asked_for(house: House) -> None:
    house.ledger.succeeded(house.ledger.claimed("good"))
    house.ledger.failed("bad")

    assert "good" in house.see("/ui/executions")
    bad = house.see("/ui/executions?state=bad")
    assert ("bad</a>" in bad, "good</a>" in bad) == (True, False)
    assert "There is no schedule" in house.see("/ui/executions?schedule=nobody", status=404)
    for path in (
        "executions?task=report+26",
        "failed?task=report+26",
        "failed?queue=nobody",
        "quarantine?schedule=nobody",
    ):
        assert "There is no " in house.see(f"/ui/{path}", status=404), path
    assert "There is no " not in house.see("/ui/executions?task=report+25&state=cancelled")


def test_a_long_list_has_a_next_page(house: House) -> None:
    house.ledger.add("many")
    for number in range(52):
        house.ledger.records.run_now(
            house.ledger.add("many"), key=f"manual-{number}", params=None, now=NOON, node="ant"
        )

    first = house.see("/ui/executions?schedule=many")
    [following] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = house.see(following.replace("&amp;", "&"))

    assert second.count('<th scope="row">') == 2
    assert "First page" in second


def test_a_cell_of_the_calendar_with_several_runs_leads_to_all_of_them(house: House) -> None:
    first, second = (house.ledger.claimed("often") for _ in range(2))
    page = unescape(house.see("/ui/schedules/often"))
    [cell] = re.findall(r'href="(/ui/schedules/often\?since=\S+)#runs"', page)

    found = unescape(house.see(cell))

    assert "the newest</a>" in found
    assert all(f'"/ui/executions/{run.id}"' in found for run in (first, second))
    earlier = "/ui/schedules/often?until=2026-03-01"
    assert "Nothing was due then." in house.see(earlier)


def test_what_failed_is_discarded_with_a_note_and_what_is_quarantined_is_released(
    house: House,
) -> None:
    failed, other = house.ledger.failed("a"), house.ledger.failed("b")
    verdict = Quarantine("crashed 3 times within 300 s")
    pill = house.ledger.finished(house.ledger.claimed("pill"), verdict, CRASH)

    house.send(f"/ui/failed/{failed.id}/discard", note="seen")
    house.send("/ui/failed/discard", schedule="b", note="seen, too")
    [id_] = re.findall(r"/ui/failed/(\d+)/replay", house.see("/ui/quarantine"))
    assert house.send(f"/ui/failed/{id_}/replay").status == 303

    [one] = house.ledger.records.archived([failed.id])
    assert (one.resolution, one.note) == ("discarded", "seen")
    assert "seen, too" in house.see(f"/ui/failed/{other.id}")
    assert house.ledger.seen(pill).state is State.CLAIMED
    assert "Nothing is quarantined" in house.see("/ui/quarantine")


def test_a_queue_that_no_worker_takes_is_marked_and_a_silent_node_is_forgotten(
    house: House,
) -> None:
    house.ledger.claimed("nightly")
    silent, now = house.ledger.now, datetime.now(UTC)
    for name, seen_at in (("ant-1-0a1b2c3d4e5f6071", silent), ("bee-1-0a1b2c3d4e5f6072", now)):
        ant = attrs.evolve(ANT, name=name, seen_at=seen_at, queues=("slow",))
        house.ledger.nodes.report(ant, kept_for=2 * HOUR)
    assert "no worker takes it" in house.see("/ui/queues")

    gone = house.send("/ui/nodes/forget", node="ant")
    there = house.send("/ui/nodes/forget", node="bee")

    assert (gone.status, there.status) == (303, 409)
    assert "Forget<" not in house.see("/ui/queues")
    assert "node.forget" in house.see("/ui/audit")


def test_times_are_shown_and_read_in_the_zone_that_a_reader_chose(house: House) -> None:
    run = house.ledger.claimed("nightly")
    cookie = {"Cookie": "cronhare_zone=Asia/Kolkata"}
    there = run.due_at.astimezone(ZoneInfo("Asia/Kolkata"))

    shown = house.web.get(f"/ui/executions/{run.id}", **cookie).text

    assert f"{there:%Y-%m-%d %H:%M:%S}+05:30</time>" in shown
    assert f'title="{run.due_at:%Y-%m-%d %H:%M:%S}Z"' in shown
    since = f"/ui/executions?since={there + timedelta(minutes=1):%Y-%m-%dT%H:%M}"
    assert "nightly</a>" not in house.web.get(since, **cookie).text
    assert "UTC" in house.web.get("/", Cookie="cronhare_zone=Mars").text


def test_a_timeline_has_a_bar_for_each_attempt(house: House) -> None:
    retried = house.ledger.finished(house.ledger.claimed("nightly"), IN_30_S)
    house.ledger.started(retried)

    page = house.see("/ui/timeline?by=schedule&span=6h")

    assert len(re.findall(r'<rect class="(?:failed|running)"', page)) == 2
    assert "ant</b>" in house.see("/ui/timeline?by=node&span=6h")


def test_nothing_of_what_was_stored_is_executed(house: House) -> None:
    name = f"x{SCRIPT}"[:60]
    failed = house.ledger.failed(name, verdict=Fail(SCRIPT), params='{"a": "<script>alert(1)"}')

    for path in (
        "/ui/executions",
        f"/ui/executions/{failed.execution_id}",
        "/ui/failed",
        f"/ui/failed/{failed.id}",
        "/ui/timeline?span=6h",
        "/ui/audit?" + urlencode({"actor": SCRIPT}),
        "/ui/failed?" + urlencode({"reason": SCRIPT}),
    ):
        assert "&lt;script&gt;" in house.see(path), path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui/executions/99999999999999999999", 404),
        ("/ui/executions/%D9%A1", 404),
        ("/ui/failed/7", 404),
        ("/ui/executions?state=hungry", 422),
        ("/ui/executions?after=x", 422),
        ("/ui/executions?since=yesterday", 422),
        ("/ui/failed?schedule=" + "x" * 300, 422),
        ("/ui/timeline?since=9999-12-31", 422),
        ("/ui/load?day=0001-01-01", 422),
        ("/ui/alerts?after=7", 422),
    ],
)
def test_what_cannot_be_is_refused(house: House, path: str, status: int) -> None:
    assert house.web.get(path).status == status


def test_what_the_pages_themselves_ask_for_is_known_to_those_that_are_asked(house: House) -> None:
    house.ledger.succeeded(house.ledger.claimed("often"))
    failed = house.ledger.failed("often")
    known = set[str]()
    for path in (
        *(way.path for way in WAYS),
        *("/ui/executions", "/ui/schedules/often", f"/ui/failed/{failed.id}"),
    ):
        page = house.see(path)
        known |= {
            unescape(link).partition("#")[0] for link in re.findall(r'href="(/[^"]*\?[^"]*)', page)
        }
        for action, fields in re.findall(
            r'<form[^>]* method="get" action="([^"]*)"(.*?)</form>', page, re.DOTALL
        ):
            known |= {f"{action}?{name}=" for name in re.findall(r' name="(\w+)"', fields)}

    refused = {path for path in known if house.web.get(path).status != 200}

    assert len(known) > 25
    assert refused == set()


def test_alerts_are_seen_with_where_to_look_and_who_was_told(house: House) -> None:
    unjudged = house.see("/ui/alerts")
    assert "Nobody has judged the ledger so far" in unjudged
    assert "No alert holds" not in unjudged
    just = datetime.now(UTC)  # by the clock of the site
    house.ledger.alerts.begin(now=just, every=HOUR)
    house.ledger.alerts.keep([], now=just, ended_at=just)
    judged = house.see("/ui/alerts")
    assert ("No alert holds." in judged, "Nobody has judged" in judged) == (True, False)
    now = house.ledger.now
    late = alert(
        Rule.TOO_LONG,
        f"late {SCRIPT}",
        now=now,
        value=90,
        threshold=60,
        subject=SCRIPT,
        source="jobs.toml",
        scheduler_id=7,
    )
    unserved = alert(Rule.QUEUE, "none serves it", now=now, value=3, subject="mail")
    for source, held in (("jobs.toml", late), (None, unserved)):
        house.ledger.alerts.begin(now=now, every=HOUR, source=source)
        [one] = house.ledger.alerts.keep([held], now=now, ended_at=now, source=source).raised
    event = raised(one, source="jobs.toml")
    house.ledger.events.add([OutboxRow.of(event, "ops", source="jobs.toml", now=now)], now=now)

    page = house.see("/ui/alerts")

    assert ("No worker serves a queue" in page, "1m30s, the threshold is 1m<" in page) == (
        True,
        True,
    )
    assert "not told: no process that tells has come to it yet" in page
    assert "data-live=" in page
    assert 'href="/ui/queues"' in page
    assert re.search(r'<dt>Alerts</dt>\s*<dd><a href="/ui/alerts">2<', house.see("/"))
    unknown = house.see("/ui/alerts?schedule=nobody", status=404)
    assert "There is no schedule &#39;nobody&#39;" in unknown
    assert re.search(r"Judged last <time|Nobody has judged the ledger since", unknown)


LIVE = {"X-Live": "1"}


def test_who_looks_at_an_open_page_shares_the_answer_and_who_comes_anew_sees_the_newest(
    house: House,
) -> None:
    web, ledger = house.web, house.ledger
    ledger.claimed("nightly")
    address = "/ui/schedules/nightly"
    first = web.get(address, **LIVE).text
    assert {"standing", "state", "calendar", "runs"} < {*re.findall(r'data-part="(\w+)"', first)}
    assert 'data-live="5"' in first

    house.container.administrator().pause({"nightly": None}, by="ada", reason="moving", actor=ADA)

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


def test_output_comes_line_by_line_and_goes_on_where_it_was_left(house: House) -> None:
    web, ledger = house.web, house.ledger
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
