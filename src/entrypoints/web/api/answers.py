"""Answers of the API: views as JSON, page by page, each made in a thread."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from fastapi import Request, Response

from ...json_text import as_json
from ..deferred import Deferred


def as_answer(view: Any, status: int = 200, **headers: str) -> Response:  # noqa: ANN401 - any view
    """Answer with a view, or several. A header's name has underscores for its dashes."""
    return Deferred(partial(_made, view, status, _named(headers)))


def as_resource(request: Request, view: Any, status: int = 200) -> Response:  # noqa: ANN401
    """Answer with a view and its tag; who has seen that already is told so, and no more."""
    return Deferred(partial(_tagged, request, view, status))


def as_text(
    request: Request, make: Callable[[], str], *, after: object, **headers: str
) -> Response:
    """Answer with a text, and a link to what comes *after* it, if anything may come."""
    named = _named(headers) | _link(request, after)

    def made() -> Response:
        text = make().encode(errors="replace")
        return Response(text, headers=named, media_type="text/plain; charset=utf-8")

    return Deferred(made)


def as_page(
    request: Request,
    found: Any,  # noqa: ANN401 - as above
    *,
    after: object,
    **headers: str,
) -> Response:
    """Answer with a page, and a link to the next one, which is of what comes *after* that."""
    return Deferred(partial(_made, found, 200, _named(headers) | _link(request, after)))


def last_id(found: Sequence[Any], *, limit: int) -> int | None:
    """Give the id after which a next page begins, if there may be one."""
    return found[-1].id if len(found) == limit else None


def _link(request: Request, after: object) -> dict[str, str]:
    """Link to what comes after, with all else that was asked for."""
    if after is None:
        return {}
    query = request.url.include_query_params(after=after).query
    return {"Link": f'<{request.url.path}?{query}>; rel="next"'}


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _made(view: Any, status: int, headers: Mapping[str, str]) -> Response:  # noqa: ANN401 - as above
    return Response(_json(view), status, headers=headers, media_type="application/json")


def _json(view: Any) -> bytes:  # noqa: ANN401 - as above
    """Write one after the other: a thread keeps the interpreter while it writes a text."""
    if isinstance(view, (list, tuple)):
        return b"[" + b", ".join(map(_json, view)) + b"]"
    return as_json(view, encode=str).encode()


def _tagged(request: Request, view: Any, status: int) -> Response:  # noqa: ANN401 - as above
    answer = _made(view, status, {})
    answer.headers["ETag"] = tag = f'"{blake2b(answer.body, digest_size=12).hexdigest()}"'
    seen = ",".join(request.headers.getlist("if-none-match"))
    if request.method == "GET" and tag in [
        each.strip().removeprefix("W/") for each in seen.split(",")
    ]:
        return Response(status_code=304, headers={"ETag": tag})
    return answer
