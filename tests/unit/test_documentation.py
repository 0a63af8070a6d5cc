"""What the documentation and comments name exists: files, sections, tests, records, ids."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.entrypoints.settings.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
COMPATIBILITY = ROOT / "docs" / "compatibility.md"

#: Comments are read in all of these.
COMMENTED = ("src", "tests", "benchmarks", "examples", "deploy", "scripts")

#: A path in a page begins with one of these, or below `src/`, or beside the page.
FOLDERS = (*COMMENTED, "docs", "requirements", ".ci")

#: S1.5 and C12 are lines of docs/compatibility.md; S1 alone is none. A character first, and what
#: stands before it afterwards: that is seven times as fast over all sources.
ID = re.compile(r"[SC](?<!\w.)\d{1,2}(?!\w)(?:\.\d+)?")


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def functions_of(path: Path) -> frozenset[str]:
    body = ast.parse(text_of(path)).body
    return frozenset(n.name for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def commented() -> tuple[Path, ...]:
    kinds = {".py", ".toml", ".yaml", ".service", ".sql"}
    within = (path for folder in COMMENTED for path in (ROOT / folder).rglob("*.*"))
    files = (path for path in within if path.suffix in kinds and path != Path(__file__))
    return (ROOT / "pyproject.toml", ROOT / "Makefile", *files)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def exists(named: str, *, beside: Path) -> bool:
    """Tell whether a path, which may have wildcards, is in the project."""
    places = (ROOT, ROOT / "src", beside.parent)
    if "*" in named:
        return any(next(place.glob(named), None) is not None for place in places)
    return any((place / named).exists() for place in places)


def accepted(page: Path) -> str:
    """Give a page without what a decision record has rejected: that need not be there."""
    return re.sub(r"(?s)\n## Rejected\n.*?(?=\n## |\Z)", "", text_of(page))


def named_paths(page: Path) -> Iterator[tuple[str, str]]:
    """Give the paths in code spans, each with the test that is named behind it."""
    for span in re.findall(r"`([^`\n]+)`", accepted(page)):
        path, _, function = span.partition("::")
        is_ours = path.split("/")[0] in FOLDERS or path.endswith((".py", ".md"))
        if "/" in path and is_ours and re.fullmatch(r"[\w.*/-]+", path):
            yield path, function


@cache
def file_names() -> frozenset[str]:
    return frozenset(path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def named_files(page: Path) -> Iterator[str]:
    """Give the Python files in code spans that are named without a folder."""
    yield from re.findall(r"`(\w+\.py)`", accepted(page))


@cache
def sections_of(page: Path) -> frozenset[str]:
    """Name the sections of a page as the links of a forge do."""
    headings = re.findall(r"(?m)^#+ (.+)$", text_of(page))
    return frozenset(re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings)


def test_what_a_page_links_is_there() -> None:
    broken = []
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text_of(page)):
            path, _, section = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (section and section not in sections_of(target)):
                broken.append((name_of(page), link))

    assert broken == []


def test_what_a_page_names_is_there() -> None:
    named = [(page, *names) for page in PAGES for names in named_paths(page)]
    tests = [(name_of(page), path, name) for page, path, name in named if name]

    assert len(tests) > 100
    assert [(name_of(page), path) for page, path, _ in named if not exists(path, beside=page)] == []
    assert [test for test in tests if test[2] not in functions_of(ROOT / test[1])] == []
    files = [(name_of(page), name) for page in PAGES for name in named_files(page)]
    assert [(page, name) for page, name in files if name not in file_names()] == []


def test_every_decision_record_that_is_cited_is_there() -> None:
    there = {int(path.name[:4]) for path in (ROOT / "docs" / "adr").glob("*.md")}
    cited = {
        (int(number), name_of(path))
        for path in (*PAGES, *commented())
        for numbers in re.findall(r"ADR (\d+(?:(?:, | and )\d+)*)", text_of(path))
        for number in re.findall(r"\d+", numbers)
    }

    assert len(cited) > 20
    assert {(number, path) for number, path in cited if number not in there} == set()


def test_every_page_that_a_comment_names_is_there() -> None:
    named = {
        (page, name_of(path))
        for path in commented()
        for page in re.findall(r"(?<![\w/])docs/[\w/-]+(?:\.\w+)?", text_of(path))
    }

    assert len(named) > 20
    assert {(page, path) for page, path in named if not (ROOT / page).exists()} == set()


def test_each_line_of_the_original_system_has_an_id_and_says_what_we_do() -> None:
    rows = re.findall(r"(?m)^\| ([SC][\d.]+) \|(.*)\|$", text_of(COMPATIBILITY))
    lines = {1: 19, 0: 13, 2: 12, 3: 6, 4: 3}
    expected = [f"S{part}.{n + 1}" for part, count in lines.items() for n in range(count)]

    assert [id_ for id_, _ in rows] == [*expected, *(f"C{n + 1}" for n in range(40))]
    for id_, row in rows:
        _, ours, shown = row.split(" | ")
        said = re.match(r"\*\*(yes|otherwise|partly|not yet)\*\*", ours)
        assert said, id_
        assert "::" in shown or said[1] == "not yet", id_
        assert ("Not yet" in ours) == (said[1] == "partly"), id_


def test_every_id_in_code_is_a_line_of_the_compatibility_page() -> None:
    ids = set(re.findall(r"(?m)^\| ([SC][\d.]+) \|", text_of(COMPATIBILITY)))
    sources = [path for path in commented() if path.suffix == ".py"]
    cited = {(id_, path) for path in sources for id_ in ID.findall(text_of(path))}
    without_its_page = {p for _, p in cited if "docs/compatibility.md" not in text_of(p)}

    assert len(cited) > 20
    assert {(id_, name_of(path)) for id_, path in cited if id_ not in ids} == set()
    assert {name_of(path) for path in without_its_page} == set()


def test_the_table_of_contents_leads_to_every_page() -> None:
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    contents = text_of(docs / "README.md")

    wanted = {page for page in pages if not page.startswith(("adr/", "README"))}
    assert {page for page in wanted if f"]({page}" not in contents} == set()


def test_the_page_of_settings_lists_each_setting() -> None:
    page = text_of(ROOT / "docs" / "reference" / "settings.md")
    listed = set(re.findall(r"(?m)^\| `CRON_(\w+)` \|", page))

    assert listed == {name.upper() for name in Settings.declared()}


@pytest.mark.parametrize("page", ["README.md", "docs/reference/jobs-file.md"])
def test_the_jobs_file_of_a_page_is_one(page: str, tmp_path: Path) -> None:
    [shown] = re.findall(r"(?s)```toml\n(.*?)```", text_of(ROOT / page))
    (tmp_path / "jobs.toml").write_text(shown)

    assert len(read_jobs(tmp_path / "jobs.toml", policy=RetryPolicy()).drafts) == 1


def test_what_the_readme_shows_of_the_app_is_of_the_example() -> None:
    example = [*(ROOT / "examples" / "shop").rglob("*.py")]
    there = {line.strip() for path in example for line in text_of(path).splitlines()}
    [shown] = re.findall(r"(?s)```python\n(.*?)```", text_of(ROOT / "README.md"))

    lines = [line.partition("  #")[0].strip() for line in shown.splitlines()]
    assert [line for line in lines if line not in there] == []
