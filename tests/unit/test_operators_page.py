"""The pages for operators against the source: what they name exists, and no alarm is left out."""

import re
from pathlib import Path

from cronhare.adapters.extras import EXTRAS
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES, EVENT_VARIABLES
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.settings.sources import CONFIG

ROOT = Path(__file__).parents[2]
PAGES = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]


def test_every_action_of_the_log_says_what_happened_and_what_to_do() -> None:
    page = (ROOT / "docs/reference/log-actions.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `([a-z._-]+)` \| [^|]+ \| ([^|]*) \| ([^|]*) \|$", page)

    assert len(rows) > 100
    assert [row for row in rows if not all(text.strip() for text in row)] == []


def test_every_extra_has_a_row_that_says_what_it_is_for() -> None:
    page = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
    table = page.partition("| extra | for |")[2].partition("\n\n")[0]

    assert re.findall(r"(?m)^\| `(\w+)` \| .", table) == [*EXTRAS]


def test_every_setting_that_a_page_names_exists() -> None:
    said = {CONFIG, "CRON_TZ", *ATTEMPT_VARIABLES, *EVENT_VARIABLES}
    exist = {f"CRON_{name.upper()}" for name in Settings.declared()} | said

    named = {name for page in PAGES for name in re.findall(r"\bCRON_[A-Z_]+[A-Z]\b", page)}
    assert {name for name in named - exist if name.removesuffix("_FILE") not in exist} == set()
