"""Each change that the page offers is hidden from those whose scope its route refuses."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from cronhare.domain.access import Scope
from cronhare.entrypoints.web.page import rendering
from cronhare.entrypoints.web.page.pages import View
from cronhare.entrypoints.web.page.routes import routes

FOLDER = Path(rendering.__file__).parent
TEMPLATES = sorted(FOLDER.glob("templates/**/*.html"))

#: Who signs in or out needs no scope.
OF_EVERYBODY = ("/ui/sign-in", "/ui/sign-out")

#: Of `m.button`, a form of one button, unless it says another.
BY_DEFAULT = "operate"


def offered(text: str) -> Iterator[tuple[str, str]]:
    """Give what a template offers to change: the last word of its address, and what it needs."""
    for form in re.findall(r'<form method="post"[^>]*>', text):
        if any(path in form for path in OF_EVERYBODY) or "{{ action }}" in form:
            continue
        address = re.search(r'action="[^"]*?([a-z-]+)"', form)
        needs = re.search(r'data-needs="([a-z]+)"', form)
        yield (address[1] if address else "edit"), (needs[1] if needs else "")
    for button in re.findall(r"m\.button\(([^%}]*)", text):
        action = button.split(", ")[0]
        needs = re.search(r'needs="([a-z]+)"', button)
        for word in re.findall(r'/([a-z]+)"', action):
            yield word, needs[1] if needs else BY_DEFAULT
    for href in re.findall(r'data-needs="([a-z]+)" href="[^"]*?([a-z-]+)"', text):
        yield href[1], href[0]


@pytest.fixture
def needed() -> dict[str, str]:
    """The scope of each route that changes something, by the last word of its path."""
    views = (each for each in routes(MagicMock()) if isinstance(each, View))
    return {
        each.path.rsplit("/", 1)[-1]: str(each.declared.scope)
        for each in views
        if each.declared.method == "POST"
    }


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_what_changes_something_is_offered_to_those_alone_who_may(
    template: Path, needed: dict[str, str]
) -> None:
    for word, needs in offered(template.read_text()):
        assert needs == needed[word], word


def test_each_change_is_offered_somewhere(needed: dict[str, str]) -> None:
    there = {word for each in TEMPLATES for word, _ in offered(each.read_text())}

    assert there == needed.keys() - {"sign-in", "sign-out"}


def test_each_scope_sees_no_more_than_it_may() -> None:
    css = (FOLDER / "static" / "page.css").read_text()
    hidden = next(line for line in css.splitlines() if line.startswith("[data-scope"))

    assert f'[data-scope="{Scope.READ}"] [data-needs]' in hidden
    assert f'[data-scope="{Scope.OPERATE}"] [data-needs="{Scope.ADMIN}"]' in hidden
    assert "display: none" in hidden
