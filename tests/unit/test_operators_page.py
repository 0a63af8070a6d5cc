"""The operators' page against the source: what it names exists, and no alarm is left out."""

import re
from pathlib import Path

from cronhare.adapters.extras import EXTRAS
from cronhare.domain.environment import ATTEMPT_VARIABLES, EVENT_VARIABLES
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.settings.sources import CONFIG

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))


def alarms() -> set[str]:
    said = re.findall(r'say\(\s*\w+,\s*logging\.(?:WARNING|ERROR),\s*"([a-z.-]+)"', SOURCES)
    return {*said, *re.findall(r'extra=\{"action": "([a-z._-]+)"', SOURCES)}


def test_every_alarm_has_a_line_that_says_what_to_do() -> None:
    told = set(re.findall(r"`([a-z._-]+)`", PAGE))

    assert len(alarms()) > 15
    assert alarms() - told == set()


def test_every_extra_has_a_row_that_says_what_it_is_for() -> None:
    table = PAGE.partition("| extra | for |")[2].partition("\n\n")[0]

    assert re.findall(r"(?m)^\| `(\w+)` \| .", table) == [*EXTRAS]


def test_every_setting_that_is_named_exists() -> None:
    said = {CONFIG, *ATTEMPT_VARIABLES, *EVENT_VARIABLES}
    exist = {f"CRON_{name.upper()}" for name in Settings.declared()} | said

    named = set(re.findall(r"\bCRON_[A-Z_]+\b", PAGE))
    assert {name for name in named - exist if name.removesuffix("_FILE") not in exist} == set()
