"""The page's frame, asked over real sockets."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from urllib.parse import urlencode

import pytest

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.asking import Asker
from cronhare.entrypoints.web.page.pages import View
from cronhare.entrypoints.web.page.rendering import WAYS
from cronhare.entrypoints.web.page.routes import routes
from tests.integration.web import FORM, JSON, Answer, Site


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    task = Task(name="sales", ref=TaskRef("report", 25), command=("true",))
    return Container(settings=on_sqlite, tasks=(task,))


def test_every_view_is_there_in_an_empty_ledger_and_loads_nothing_from_elsewhere(web: Site) -> None:
    for way in WAYS:
        found = web.get(way.path)

        assert found.status == 200, way
        assert found.headers["cache-control"] == "no-store"
        assert set(found.headers["content-security-policy"].split("; ")) == {
            "default-src 'none'",
            *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        }
        assert not re.search(r"style=|<style|\son\w+=|<script>|https?://", found.text), way
        assert 'aria-current="page"' in found.text


def test_each_view_and_form_refuses_what_it_does_not_know_or_has_twice(
    web: Site, container: Container
) -> None:
    with ThreadPoolExecutor(1) as executor:
        views = [each for each in routes(Asker(container, executor)) if isinstance(each, View)]
    assert {way.path for way in WAYS} < {each.path for each in views}
    assert web.get("/ui/load?day=2026-03-02&day=").text.count("is there several times") == 1

    for each in views:
        place = each.path.replace("{name:path}", "nightly")
        place = re.sub(r"\{\w+\}", "1", place)
        if each.declared.method == "GET":
            refused = web.get(f"{place}?status[]=1&a%00=1")
        else:
            refused = web.ask("POST", place, "status[]=on&a%00=1", FORM)

        assert refused.status == 422, place
        for name in ("status[]", "a\\x00"):
            assert f"<code>{name}</code> is not known here; " in refused.text, place


def test_what_is_not_there_is_told_as_a_page(web: Site) -> None:
    found = web.get("/ui/<script>alert(1)</script>")
    assert (found.status, "There is no page at this address." in found.text) == (404, True)
    assert "<script>" not in found.text


def test_files_are_kept_for_ever_under_an_address_that_says_what_they_hold(web: Site) -> None:
    found = set(re.findall(r"/ui/static/\w+/[\w.]+", web.get("/").text))
    assert len(found) == 4

    for address in found:
        kept = web.get(address)
        assert (kept.status, kept.headers["x-content-type-options"]) == (200, "nosniff")
        assert "immutable" in kept.headers["cache-control"]
    assert web.get("/ui/static/000000000000/page.css").status == 404
    assert web.get("/ui/static/../pages.py").status == 404


NAME = "nightly"


@pytest.fixture
def schedule(container: Container) -> str:
    draft = ScheduleDraft(
        name=NAME,
        task=TaskRef("report", 25),
        schedule="0 2 * * *",
        timezone="Europe/Berlin",
        description="Runbook: https://wiki.example/nightly",
    )
    container.schedules().save([draft], source="jobs.toml", now=container.claims().now())
    return f"/ui/schedules/{NAME}"


def test_a_schedule_is_found_and_shown_with_what_is_due(web: Site, schedule: str) -> None:
    assert f'href="{schedule}"' in web.get("/ui/schedules?search=NIGHT").text
    assert "No schedule is like that." in web.get("/ui/schedules?search=x&state=paused").text
    shown = web.get(schedule)

    assert shown.status == 200
    assert "Europe/Berlin" in shown.text
    assert '<a href="https://wiki.example/nightly" rel="noopener noreferrer">' in shown.text
    assert "<dd>sales</dd>" in shown.text
    assert shown.text.count("02:00 <span") == 5
    assert web.get("/ui/schedules/nightli").status == 404
    assert "did you mean nightly" in web.get("/ui/schedules/nightli").text


def test_a_cell_explains_itself(web: Site, schedule: str) -> None:
    explained = web.get(f"{schedule}/explain?at=2026-03-02T12:00:00Z")

    assert "It was not due then" in explained.text
    assert web.get(f"{schedule}/explain").status == 200
    assert web.get(f"{schedule}/explain?at=2026-03-02").status == 200


def test_it_is_paused_with_a_reason_resumed_run_and_disabled(
    web: Site, container: Container, schedule: str
) -> None:
    paused = web.ask("POST", f"{schedule}/pause", "reason=caf%c3%a9&for=9d", FORM)
    assert (paused.status, paused.headers["location"]) == (303, schedule)
    said = web.get(schedule, Cookie=paused.headers["set-cookie"].split(";")[0])
    assert "will not run: paused by " in said.text
    assert "nightly is paused" in said.text
    assert "café" in said.text

    resumed = web.ask("POST", f"{schedule}/resume", "", FORM)
    ran = web.ask("POST", f"{schedule}/run", "", FORM)
    disabled = web.ask("POST", f"{schedule}/disable", "", FORM)

    assert [each.status for each in (resumed, ran, disabled)] == [303] * 3
    assert ran.headers["location"] == "/ui/executions/1"
    view = container.queries().schedule(NAME)
    assert (view.status, view.pause and view.pause.on) == (False, False)


def test_a_form_is_refused_as_a_page_with_its_faults(web: Site, schedule: str) -> None:
    refused = web.ask("POST", f"{schedule}/pause", "for=soon&reason=we+move", FORM)
    assert refused.status == 422
    assert "is no duration" in refused.text
    assert web.ask("POST", f"{schedule}/pause", "for=%ff", FORM).status == 400
    assert web.ask("POST", f"{schedule}/pause", "a=&" * 300, FORM).status == 400
    assert web.ask("POST", f"{schedule}/pause", "{}", JSON).status == 415
    foreign = {**FORM, "Origin": "http://elsewhere.example"}
    assert web.ask("POST", f"{schedule}/run", "", foreign).status == 403


def filled(page: Answer) -> dict[str, str]:
    """Fill in the form of a page as a browser does that changes nothing."""
    inputs = re.findall(r"<input[^>]*>", page.text)
    sent = [each for each in inputs if "checkbox" not in each or " checked" in each]
    fields = re.findall(r'<input[^>]* name="(\w+)"[^>]*? value="([^"]*)"', "".join(sent))
    found = dict(fields) | dict(
        re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', page.text, re.DOTALL)
    )
    for name, options in re.findall(
        r'<select[^>]* name="(\w+)">(.*?)</select>', page.text, re.DOTALL
    ):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        found[name] = (chosen[1] or chosen[2]) if chosen else ""
    return {name: unescape(value) for name, value in found.items()}


def sent(web: Site, path: str, form: Mapping[str, str]) -> Answer:
    return web.ask("POST", path, urlencode(form), FORM)


def test_a_schedule_is_created_by_a_form_or_every_fault_is_told(
    web: Site, container: Container
) -> None:
    form = filled(web.get("/ui/new-schedule")) | {"name": "weekly", "task": "report 25"}
    refused = sent(web, "/ui/new-schedule", form | {"schedule": "61 2 * * *", "params": "{"})

    assert refused.status == 422
    assert "minute: 61 is outside" in refused.text
    assert "is no JSON" in refused.text
    assert 'value="weekly"' in refused.text

    made = sent(web, "/ui/new-schedule", form | {"schedule": "1 2 * * 1", "timeout": "5m"})
    assert (made.status, made.headers["location"]) == (303, "/ui/schedules/weekly")
    view = container.queries().schedule("weekly")
    assert (view.schedule, view.timeout_seconds, view.status) == ("1 2 * * 1", 300, True)
    assert "<dt>Next run</dt><dd><time" in web.get("/ui/schedules/weekly").text, (
        "before it is planned"
    )
    assert "there is a schedule weekly already" in sent(
        web, "/ui/new-schedule", form | {"schedule": "1 2 * * 1"}
    ).text.replace("&#39;", "'")


def test_a_topic_and_what_stays_alive_are_made_and_edited_by_the_form(web: Site) -> None:
    event = {"topic": "orders.due", "no_listener": "fail", "params": '{"shop": 7}'}
    form = filled(web.get("/ui/new-schedule")) | {"name": "events", "every": "1h"}
    assert sent(web, "/ui/new-schedule", form | event).status == 303
    address = "/ui/schedules/events/edit"
    kept = filled(web.get(address))
    assert (kept["task"], kept["topic"], kept["no_listener"]) == ("", "orders.due", "fail")
    assert "none, but a topic" in web.get(address).text

    both = sent(web, address, kept | {"task": "report 25"})
    assert (both.status, "a schedule names a task or a topic, not both" in both.text) == (422, True)
    assert sent(web, address, kept | {"params": "[1]"}).text.count('<a href="#params">') == 1
    alive = kept | {"topic": "", "task": "report 25", "stay_alive": "on", "every": ""}
    assert sent(web, address, alive).status == 303

    [stored] = web.get("/schedulers").json()
    parts = ("topic", "no_listener", "report_id", "params", "stay_alive", "every_seconds")
    assert [stored[part] for part in parts] == [None, "complete", 25, {"shop": 7}, True, None]
    now = filled(web.get(address))
    assert now["stay_alive"] == "on"
    del now["stay_alive"]  # as a box that is not ticked
    refused = sent(web, address, now | {"queue": "slow"})
    assert (refused.status, '<a href="#schedule">' in refused.text) == (422, True)
    assert "started again whenever it has ended" in web.get("/ui/preview?stay_alive=on").text


def test_what_is_wrong_with_a_part_is_told_at_its_field(web: Site, schedule: str) -> None:
    wrong = {"misfire_cap": "0", "misfire_window": "soon", "concurrency_key": "shop"}

    found = sent(web, f"{schedule}/edit", filled(web.get(f"{schedule}/edit")) | wrong)

    assert found.status == 422
    for field in ("misfire_cap", "misfire_window", "concurrency_limit"):
        assert f'<a href="#{field}">' in found.text
        assert re.search(f'id="{field}"[^>]*aria-invalid', found.text), field


def test_a_preview_tells_what_the_clock_does(web: Site) -> None:
    found = web.get("/ui/preview?schedule=30+2+*+*+*&timezone=Europe%2FBerlin")
    assert found.text.count("02:30 <span") == 6
    assert "minute: 99 is outside" in web.get("/ui/preview?schedule=99+2+*+*+*").text
    assert web.get("/ui/preview").status == 200
    past = web.get("/ui/preview?date_time=2020-01-01T08:00:00").text
    assert ("it will not run" in past, "never run" in past) == (True, False)


@pytest.mark.parametrize("name", ["<u>\"&'x</u>", "a b/c?d#e%41", "#7", "ü\u202e/edit"])
def test_a_name_that_no_file_can_have_is_shown_as_text_and_leads_to_its_page(
    web: Site, container: Container, name: str
) -> None:
    draft = ScheduleDraft(name=name, task=TaskRef("report", 25), schedule="0 2 * * *")
    container.schedules().save([draft], source=None, now=container.claims().now())
    listed = web.get("/ui/schedules").text
    [address] = {
        unescape(each) for each in re.findall(r'<th scope="row"><a href="([^"]+)"', listed)
    }

    shown = web.get(address)

    assert "<u>" not in listed + shown.text
    assert shown.status == (404 if name.endswith("/edit") else 200)
