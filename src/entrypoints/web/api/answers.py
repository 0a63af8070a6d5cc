"""Answers of the API: views as JSON."""

from typing import Any

from fastapi import Response

from ...json_text import as_json


def as_answer(view: Any, status: int = 200, **headers: str) -> Response:  # noqa: ANN401 - any view
    """Answer with a view."""
    text = as_json(view, encode=str)
    return Response(text, status, headers=headers, media_type="application/json")
