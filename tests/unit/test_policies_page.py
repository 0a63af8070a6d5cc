"""What the page of tasks says of policies is what a jobs file may say, and what it means."""

import re
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.application.administration.views.values import retry_facts
from cronhare.domain.retries.policy import BACKOFFS, POLICIES, RetryPolicy
from cronhare.domain.schedules.task import BUILT_IN_CLASSES

PAGE = (Path(__file__).parents[2] / "docs/reference/tasks.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## How a task is retried")[2].partition("\n## ")[0]


def test_the_example_of_the_page_is_a_jobs_file(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", SECTION, flags=re.DOTALL)
    path = tmp_path / "jobs.toml"
    path.write_text(example)

    file = read_jobs(path, policy=RetryPolicy())

    [task], [draft] = file.tasks, file.drafts
    assert draft.retry is not None
    assert retry_facts(draft.retry) == "3 runs, waits 1 min, 1 min, 2 min in all"
    assert sorted(task.policy.errors) == ["ECONNRESET", "KeyError", "TooManyRequests", "exit:75"]
    assert str(task.policy.strategy) == "waits:polite"


@pytest.mark.parametrize("name", [*BACKOFFS, *POLICIES])
def test_each_name_is_told(name: str) -> None:
    assert f"`{name}`" in SECTION.replace("**", "")


@pytest.mark.parametrize("name", BUILT_IN_CLASSES)
def test_what_a_class_keeps_is_told(name: str) -> None:
    [row] = re.findall(rf"\| `{name}` \|(.*)", SECTION)
    policy, keep = BUILT_IN_CLASSES[name].retry, BUILT_IN_CLASSES[name].keep

    assert policy is not None
    assert row.split(",")[0].strip() == str(policy.attempts)
    told = "" if keep is None else f"{keep.done:,} done, {keep.failed:,} failed"
    assert row.split("|")[1].strip() == told


def test_the_facts_of_the_page_are_those_of_the_default() -> None:
    assert f"`{retry_facts(RetryPolicy())}`" in SECTION
