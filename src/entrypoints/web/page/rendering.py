"""Templates to text: everything is escaped, and what a template asks for must be there."""

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request

from cronhare.domain.texts.printable import shortened
from cronhare.domain.texts.words import ended, say_no_times, say_ways

from ...json_text import as_json
from . import charts, flash, outcomes, times
from .assets import Assets
from .navigation import WAYS, current

_FOLDER: Final = Path(__file__).parent / "templates"
_THEMES: Final = ("light", "dark")

#: Characters that are shown of the params of a schedule, or of a change.
LONGEST_SHOWN: Final = 100_000


def _as_json_text(value: object) -> str:
    """Write a value as JSON for people, no longer than is read: to be escaped as any other text.

    What is deep is indented: of 64 KiB there would be megabytes.
    """
    text = value if isinstance(value, str) else as_json(value, encode=str, indent=2)
    return shortened(text, LONGEST_SHOWN)


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    """Make a sentence of what an error says: a question has its mark already."""
    return ended(_first_upper(text))


class Renderer:
    """Renders the templates of the page."""

    def __init__(self, assets: Assets) -> None:
        """*assets* are what pages link to."""
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= times.FILTERS | outcomes.FILTERS | charts.FILTERS
        self._environment.filters |= {"first_upper": _first_upper, "sentence": _sentence}
        self._environment.filters["ended"] = ended
        self._environment.filters["tojson_text"] = _as_json_text
        self._environment.filters["pretty"] = lambda value: as_json(value, encode=str, indent=2)
        self._environment.globals |= {
            "asset": assets.address,
            "say_no_times": say_no_times,
            "say_ways": say_ways,
            "ways": WAYS,
        }

    def page(self, request: Request, template: str, **context: Any) -> str:  # noqa: ANN401
        """Render a whole page."""
        theme = request.cookies.get("cronhare_theme")
        frame = {
            "path": request.url.path,
            "current": current(request.url.path),
            "theme": theme if theme in _THEMES else None,
            "said": flash.said_to(request),
            "actor": getattr(request.state, "actor", None),
            "now": None,
        }
        return self._environment.get_template(template).render(frame | context)

    def fragment(self, template: str, **context: Any) -> str:  # noqa: ANN401
        """Render a piece of one."""
        return self._environment.get_template(template).render(context)
