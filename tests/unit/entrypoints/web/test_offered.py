"""What changes something is marked with the scope that it needs, which hides it from others."""

import re
from pathlib import Path

import pytest

from cronhare.domain.access import Scope
from cronhare.entrypoints.web.page import rendering

FOLDER = Path(rendering.__file__).parent
TEMPLATES = sorted(FOLDER.glob("templates/**/*.html"))

#: Who signs in or out needs no scope.
OF_EVERYBODY = ("/ui/sign-in", "/ui/sign-out")


def changing(text: str) -> list[str]:
    """Give the forms of a template that change something."""
    forms = re.findall(r'<form method="post"[^>]*>', text)
    return [form for form in forms if not any(path in form for path in OF_EVERYBODY)]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_each_form_that_changes_something_says_what_it_needs(template: Path) -> None:
    for each in changing(template.read_text()):
        assert "data-needs=" in each, each


def test_some_forms_change_something() -> None:
    assert sum(len(changing(each.read_text())) for each in TEMPLATES) >= 6


def test_each_scope_sees_no_more_than_it_may() -> None:
    css = (FOLDER / "static" / "page.css").read_text()
    hidden = next(line for line in css.splitlines() if line.startswith("[data-scope"))

    assert f'[data-scope="{Scope.READ}"] [data-needs]' in hidden
    assert f'[data-scope="{Scope.OPERATE}"] [data-needs="{Scope.ADMIN}"]' in hidden
    assert "display: none" in hidden
