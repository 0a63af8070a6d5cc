"""The page as people use it: a few long stories, in one browser, on one machine."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import NARROW, WIDE, Window, chromium, window
from tests.browser.house import House, house

pytestmark = pytest.mark.integration

#: Milliseconds: others may be at work on the machine.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def home(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:  # noqa: ARG001 - without it nothing is started
    with house(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def desk(browser: Browser) -> Iterator[Window]:
    with window(browser) as opened:
        yield opened
        assert opened.complaints == []


def fill(page: Page, **fields: str) -> None:
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)


def test_a_schedule_is_made_run_read_paused_and_edited_beside_somebody_else(
    home: House, desk: Window, browser: Browser
) -> None:
    page = desk.page
    page.goto(home.address("/"))
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("link", name="New schedule").click()
    fill(
        page,
        Name="morning-report",
        Description="What the day begins with",
        Time_zone="Europe/Berlin",
    )
    page.get_by_label("Task", exact=True).select_option(label="talks (report 1)")
    fill(page, Cron_text="30 2 * 3 7")
    due = page.locator("[data-preview-place] li")
    expect(due.first).to_contain_text("02:30")
    expect(page.locator("[data-preview-place]")).to_contain_text("does not exist that day")
    fill(page, Params='{"steps": 40, "pause": 0.2}')
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("morning-report was created.")

    page.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile(r"/ui/executions/\d+$"))
    expect(page.locator("[data-output]")).to_contain_text("step 3 of 40")
    desk.photograph("execution")
    expect(page.locator("[data-output]")).not_to_contain_text("step 40 of 40")
    expect(page.locator("[data-output]")).to_contain_text("step 40 of 40", timeout=30_000)

    page.goto(home.address("/ui/schedules/morning-report"))
    page.get_by_text("Pause…").click()
    fill(page, Why="the warehouse moves", For_how_long="2h")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("the warehouse moves")
    desk.photograph("schedule")

    page.get_by_role("link", name="Edit").click()
    fill(page, Cron_text="0 6 * * *")
    with window(browser) as other:
        other.page.goto(home.address("/ui/schedules/morning-report/edit"))
        fill(other.page, Cron_text="0 7 * * *", Description="Theirs")
        other.page.get_by_role("button", name="Save").click()
        expect(other.page.get_by_role("status")).to_contain_text("was edited")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has edited it meanwhile")
    expect(page.locator("tr.conflict")).to_have_count(1)
    expect(page.get_by_label("Description")).to_have_value("Theirs")
    assert [each for each in desk.faults() if "console" not in each] == []
    page.get_by_role("button", name="Save").click()
    expect(page.locator("code").first).to_have_text("0 6 * * *")


def test_what_fails_is_seen_at_once_retried_and_replayed(home: House, desk: Window) -> None:
    page = desk.page
    page.goto(home.address("/"))
    expect(page.locator(".live-dot")).to_have_class(re.compile(r"\bon\b"))
    for name, pause in (("search-index", 0.6), ("stock-levels", 0.9)):
        home.shell("run", name, "--params", f'{{"steps": 20, "pause": {pause}}}')
    home.run("charge-cards")
    failing = page.locator("[data-part=failing]")
    expect(failing).to_contain_text("charge-cards")
    expect(failing).to_contain_text("the bank does not answer")
    expect(page.locator("[data-part=running] progress")).to_have_count(2)
    desk.photograph("now")

    failing.get_by_role("link", name=re.compile("the bank")).first.click()
    expect(page.locator("main")).to_contain_text("asking the bank")
    expect(page.locator("main")).to_contain_text(re.compile("Attempt 2", re.IGNORECASE))
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).to_be_visible()


def test_failures_are_replayed_with_a_canary_and_watched_to_the_end(
    home: House, desk: Window
) -> None:
    home.run("charge-cards")
    page = desk.page
    page.goto(home.address("/ui/failed?schedule=charge-cards"))
    page.locator("summary", has_text="Replay").click()
    fill(page, Try_so_many_first="1")
    page.get_by_role("button", name="Begin the replay").click()
    expect(page).to_have_url(re.compile(r"/ui/replays/\d+$"))
    # The card is charged in vain once more: it stops, and the page says so by itself.
    expect(page.locator(".notice", has_text="Stopped:")).to_be_visible()
    page.get_by_role("button", name="Go on to the end").click()
    expect(page.locator("h1")).to_contain_text("done")

    page.goto(home.address("/ui/audit"))
    for action in ("replay.order", "replay.resume"):
        expect(page.locator("table")).to_contain_text(action)


def test_a_run_is_cancelled_and_the_page_says_so_by_itself(home: House, desk: Window) -> None:
    params = '{"steps": 600, "pause": 0.1}'
    id_ = home.shell("run", "nightly-invoices", "--params", params, "--json").json()["id"]
    page = desk.page
    page.goto(home.address(f"/ui/executions/{id_}"))
    expect(page.locator("[data-output]")).to_contain_text("step 3 of 600")
    expect(page.locator("h1")).to_contain_text("running")

    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("status")).to_contain_text("was asked to end")
    expect(page.locator("h1")).to_contain_text("cancelled")
    expect(page.locator(".story")).to_contain_text("Attempt 1")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_worker_is_drained_and_taken_back(home: House, desk: Window) -> None:
    page = desk.page
    page.goto(home.address("/ui/queues"))
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("status")).to_contain_text("is draining")
    page.get_by_role("button", name="Take back").click()
    expect(page.get_by_role("button", name="Drain")).to_be_visible()


VIEWS = (
    "/", "/ui/schedules", "/ui/schedules/price-feed", "/ui/schedules/price-feed/explain",
    "/ui/new-schedule", "/ui/timeline", "/ui/executions", "/ui/replays", "/ui/alerts", "/ui/failed",
    "/ui/quarantine", "/ui/queues", "/ui/load", "/ui/audit", "/ui/keys", "/ui/nothing-is-here",
)  # fmt: skip


@pytest.mark.parametrize(("width", "theme"), [(NARROW, "dark"), (WIDE, "light")])
def test_axe_finds_nothing_and_nothing_is_too_wide(
    home: House, browser: Browser, width: int, theme: Literal["dark", "light"]
) -> None:
    id_ = home.run("charge-cards")
    other: Literal["dark", "light"] = "light" if theme == "dark" else "dark"
    with window(browser, width=width, theme=theme) as opened:
        faults = []
        for path in (*VIEWS, f"/ui/executions/{id_}", "/ui/failed/1"):
            opened.page.goto(home.address(path))
            faults += opened.faults()
            for opens in opened.page.locator("main details").all():
                opens.evaluate("each => { each.open = true; }")
                faults += opened.too_wide()
                opens.evaluate("each => { each.open = false; }")
            name = path.strip("/").replace("/", "-").removeprefix("ui-") or "now"
            opened.photograph(f"{name}-{width}-{theme}")
            opened.page.emulate_media(color_scheme=other)  # nothing but colours differs
            faults += opened.faults("color-contrast")
            opened.page.emulate_media(color_scheme=theme)
    assert faults == []


def test_a_page_that_has_lost_its_server_says_so_until_it_is_back(
    home: House, desk: Window
) -> None:
    page = desk.page
    page.goto(home.address("/"))
    page.route("**/", lambda route: route.abort())
    lost = page.get_by_role("status").filter(has_text="No connection to cronhare since")
    expect(lost).to_be_visible()
    stopped = page.locator("[data-clock] time").text_content()
    page.wait_for_timeout(1_500)
    assert page.locator("[data-clock] time").text_content() == stopped

    page.unroute("**/")
    expect(lost).to_have_count(0)


def test_the_theme_is_chosen_and_kept(home: House, desk: Window) -> None:
    page = desk.page
    page.goto(home.address("/ui/schedules"))
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Theme").click()
    page.reload()

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
