"""People sign in to the page, are refused what their token does not reach, and sign out."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.access import Scope, make_token
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from tests.actors import ADA
from tests.browser.chromium import NARROW, chromium, window
from tests.integration.web import Site, site

pytestmark = pytest.mark.integration

DRAFT = ScheduleDraft(name="nightly", task=TaskRef("report", 1), schedule="0 8 * * *")


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Container:
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    made = Container(settings=Settings.read())
    upgrade(made.engine())
    return made


@pytest.fixture
def web(container: Container) -> Iterator[Site]:
    with site(container) as found:
        yield found


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_is_where_they_were_and_is_refused_what_is_not_theirs(
    web: Site, container: Container
) -> None:
    container.schedule_editor().create(DRAFT, actor=ADA)
    reader = container.admission().create(
        "reader", Scope.READ, lives=None, chance=secrets.token_bytes(32), actor=ADA
    )
    address = f"http://127.0.0.1:{web.port}/ui/schedules/nightly"
    with chromium() as browser:
        for theme in ("light", "dark"):
            with window(browser, width=NARROW, theme=theme) as narrow:
                narrow.page.goto(address)
                expect(narrow.page.get_by_role("heading", name="Sign in")).to_be_visible()
                assert narrow.faults() == []
        with window(browser) as desk:
            page = desk.page
            page.goto(address)
            sign_in(page, make_token(bytes(32)))
            expect(page.get_by_role("alert")).to_contain_text("not valid")
            assert desk.faults() == []
            sign_in(page, reader.secret)
            expect(page).to_have_url(address)
            expect(page.locator(".actor")).to_contain_text("reader")
            assert desk.faults() == []

            expect(page.get_by_role("heading", name="nightly")).to_be_visible()
            for each in page.locator("[data-needs]").all():
                expect(each).to_be_hidden()
            assert (
                page.locator("[data-needs]").count() >= 5
            )  # run, pause and its form, disable, edit
            page.locator('form[action$="/run"]').evaluate("form => form.submit()")
            expect(page.locator("main")).to_contain_text("needs the scope operate")
            page.goto(f"{address}/edit")
            expect(page.locator("main")).to_contain_text("needs the scope admin")

            page.goto(address)
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("status")).to_contain_text("signed out")
            page.goto(address)
            expect(page.get_by_label("Token")).to_be_visible()
            assert desk.complaints == []
