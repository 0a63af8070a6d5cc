"""Answers of the API: views as JSON, page by page."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from fastapi import Request, Response

from ...json_text import as_json


def as_answer(view: Any, status: int = 200, **headers: str) -> Response:  # noqa: ANN401 - any view
    """Answer with a view, or several. A header's name has underscores for its dashes."""
    text = as_json(view, encode=str)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status, headers=named, media_type="application/json")


def as_resource(request: Request, view: Any, status: int = 200) -> Response:  # noqa: ANN401
    """Answer with a view and its tag; who has seen that already is told so, and no more."""
    answer = as_answer(view, status)
    answer.headers["ETag"] = tag = f'"{blake2b(answer.body, digest_size=12).hexdigest()}"'
    seen = ",".join(request.headers.getlist("if-none-match"))
    if request.method == "GET" and tag in [
        each.strip().removeprefix("W/") for each in seen.split(",")
    ]:
        return Response(status_code=304, headers={"ETag": tag})
    return answer


def as_text(request: Request, text: str, *, after: object, **headers: str) -> Response:
    """Answer with a text, and a link to what comes *after* it, if anything may come."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if after is not None:
        named["Link"] = next_link(request, after=after)
    return Response(
        text.encode(errors="replace"), headers=named, media_type="text/plain; charset=utf-8"
    )


def as_page(
    request: Request,
    found: Any,  # noqa: ANN401 - as above
    *,
    after: object,
    **headers: str,
) -> Response:
    """Answer with a page, and a link to the next one, which is of what comes *after* that."""
    answer = as_answer(found)
    answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    if after is not None:
        answer.headers["Link"] = next_link(request, after=after)
    return answer


def last_id(found: Sequence[Any], *, limit: int) -> int | None:
    """Give the id after which a next page begins, if there may be one."""
    return found[-1].id if len(found) == limit else None


def next_link(request: Request, *, after: object) -> str:
    """Write the link to what comes after, with all else that was asked for."""
    query = request.url.include_query_params(after=after).query
    return f'<{request.url.path}?{query}>; rel="next"'
