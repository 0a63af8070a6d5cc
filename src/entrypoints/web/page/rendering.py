"""Templates to text: what every page has, its files, its navigation and its word about a change."""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

import attrs
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.texts.printable import shortened
from cronhare.domain.texts.words import ended, say_no_times, say_ways

from ...json_text import as_json
from . import pictures, times


def schedule_path(name: str) -> str:
    """Give the address of a schedule's page.

    >>> schedule_path("#7"), schedule_path("reports/sales")
    ('/ui/schedules/%237', '/ui/schedules/reports/sales')
    """
    return f"/ui/schedules/{quote(name)}"


@attrs.frozen(kw_only=True)
class Way:
    """A view in the navigation; *key* after a `g` leads there."""

    title: str
    path: str
    key: str


WAYS: Final = (
    Way(title="Now", path="/", key="n"),
    Way(title="Schedules", path="/ui/schedules", key="s"),
    Way(title="Executions", path="/ui/executions", key="x"),
    Way(title="Timeline", path="/ui/timeline", key="t"),
    Way(title="Alerts", path="/ui/alerts", key="e"),
    Way(title="Failed", path="/ui/failed", key="f"),
    Way(title="Quarantine", path="/ui/quarantine", key="q"),
    Way(title="Queues and nodes", path="/ui/queues", key="u"),
    Way(title="Load", path="/ui/load", key="l"),
    Way(title="Audit", path="/ui/audit", key="a"),
)

#: Views that are reached from others, and the one that they belong to.
_BELOW: Final = {"/ui/replays": "/ui/failed", "/ui/new-schedule": "/ui/schedules"}


def current(path: str) -> str | None:
    """Give the path of the way on which a page lies.

    >>> current("/ui/schedules/nightly")
    '/ui/schedules'
    """
    for way in WAYS:
        if path == way.path or (way.path != "/" and path.startswith(f"{way.path}/")):
            return way.path
    return next((way for below, way in _BELOW.items() if path.startswith(below)), None)


_FILES: Final = Path(__file__).parent / "static"
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

#: What is at an address never changes.
_FAR: Final = "public, max-age=31536000, immutable"


@attrs.frozen
class Assets:
    """All files, held in memory; scripts import each other by their plain names."""

    files: Mapping[str, bytes]
    digest: str

    @classmethod
    def read(cls) -> Self:
        found = {
            path.name: path.read_bytes()
            for path in sorted(_FILES.iterdir())
            if path.suffix in _KINDS
        }
        whole = sha256()
        for name, content in found.items():
            whole.update(f"{name} {len(content)} ".encode() + content)
        return cls(found, whole.hexdigest()[:12])

    def address(self, name: str) -> str:
        return f"/ui/static/{self.digest}/{name}"

    async def answer(self, request: Request) -> Response:
        """Answer a file; one of another release is not here."""
        digest, _, name = request.path_params["rest"].partition("/")
        content = self.files.get(name)
        if digest != self.digest or content is None:
            return Response("there is no such file\n", HTTPStatus.NOT_FOUND)
        kind = _KINDS[Path(name).suffix]
        return Response(content, media_type=kind, headers={"Cache-Control": _FAR})


_COOKIE: Final = "cronhare_said"
_LONGEST: Final = 500
_SECONDS: Final = 30


def remember(response: Response, said: str) -> None:
    """Send a word along with a redirect.

    It is a cookie, which anybody may write: so it is short, and shown as text.
    """
    response.set_cookie(
        _COOKIE,
        quote(said[:_LONGEST], safe=""),
        max_age=_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
    )


def said_to(request: Request) -> str | None:
    said = unquote(request.cookies.get(_COOKIE, ""), errors="replace")[:_LONGEST]
    return "".join(each for each in said if each.isprintable()) or None


def forget(request: Request, response: Response) -> None:
    if _COOKIE in request.cookies:
        response.delete_cookie(_COOKIE, path="/", httponly=True, samesite="strict")


#: The zone that a reader has chosen for times.
_ZONE: Final = "cronhare_zone"


def zone_of(request: Request) -> ZoneInfo:
    named = request.cookies.get(_ZONE)
    try:
        return find_zone(named) if named else _default_zone(request)
    except UnknownZone:
        return _default_zone(request)


def _default_zone(request: Request) -> ZoneInfo:
    if "app" not in request.scope:  # it is refused before it reaches a view
        return ZoneInfo("UTC")
    settings = request.app.state.asker.container.settings()
    return ZoneInfo(settings.display_timezone or "UTC")


_TEMPLATES: Final = Path(__file__).parent / "templates"
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


class Renderer:
    """Renders the templates of the page."""

    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= times.FILTERS | pictures.FILTERS
        self._environment.filters |= {
            "first_upper": _first_upper,
            "sentence": lambda text: ended(_first_upper(text)),
            "ended": ended,
            "tojson_text": _as_json_text,
            "pretty": partial(as_json, encode=str, indent=2),
        }
        self._environment.globals |= {
            "asset": assets.address,
            "say_no_times": say_no_times,
            "say_ways": say_ways,
            "ways": WAYS,
        }

    def page(self, request: Request, template: str, **context: Any) -> str:  # noqa: ANN401
        theme = request.cookies.get("cronhare_theme")
        zone = zone_of(request).key
        frame = {
            "zone": zone,
            "zones": dict.fromkeys((zone, _default_zone(request).key, "UTC")),
            "live": 0,
            "path": request.url.path,
            "current": current(request.url.path),
            "theme": theme if theme in _THEMES else None,
            "said": said_to(request),
            "actor": getattr(request.state, "actor", None),
            "now": None,
        }
        return self._environment.get_template(template).render(frame | context)
