"""What the API says of itself at `/openapi.json`."""

from collections.abc import Mapping
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, Final

import attrs
import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from cronhare.domain.reading import REQUIRED

from .. import problems
from ..problems import Problem, answer_problems
from .operations import REF, Operation, methods_of

#: How who asks is known, in the words of OpenAPI.
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token that `cronhare tokens create` made. Each operation says in `x-scope` "
    "which scope it needs.",
}


class Api(FastAPI):
    """An application that describes the house's own values; FastAPI knows only pydantic's."""

    _rendered: bytes | memoryview | None = None

    def setup(self) -> None:
        """Offer the description, made once; no pages, whose scripts come from elsewhere."""

        async def described(_: Request) -> Response:
            if self._rendered is None:
                self._rendered = JSONResponse(self.openapi()).body
            return Response(self._rendered, media_type=JSONResponse.media_type)

        self.add_route("/openapi.json", described, include_in_schema=False)

    def answer_problems(self) -> None:
        """Answer every error as a problem; of a method that there is not, with those there are."""
        answer_problems(self)

        async def no_such_method(request: Request, _: Exception) -> Response:
            allowed = methods_of(self, request)
            detail = f"{request.url.path} takes {allowed}"
            problem = Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
            return problem.response

        self.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, no_such_method)

    def openapi(self) -> dict[str, Any]:
        """Describe it; made once."""
        if self.openapi_schema is None:
            operations = [each for each in self.routes if isinstance(each, Operation)]
            bodies = {each.takes.__name__: each.takes for each in operations if each.takes}
            views = {kind.__name__: kind for each in operations for kind in each.gives}
            kinds = sorted((bodies | views).values(), key=lambda kind: kind.__name__)
            _, components = msgspec.json.schema_components(kinds, ref_template=REF)
            described = super().openapi()
            # What the framework describes itself is of parameters: lists of names, say.
            of_parameters = described.get("components", {}).get("schemas", {})
            described["components"] = {
                "schemas": {**of_parameters}
                | {name: _tidy(each) for name, each in components.items()}
                | {name: _body(kind, components[name]) for name, kind in bodies.items()}
                | {"Problem": problems.SCHEMA},
                "securitySchemes": {"token": _TOKEN},
            }
            # The other is a request straight from this machine, as long as it needs none.
            described["security"] = [{"token": []}, {}]
        return super().openapi()


def _tidy(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = dict(schema)
    if "description" in described:
        described["description"] = cleandoc(described["description"])
    return described


def _body(kind: type[attrs.AttrsInstance], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a body: what is null in it counts as not given, but for what must be."""
    required = [field.name for field in attrs.fields(kind) if field.metadata == REQUIRED]
    described = _tidy(schema) | {"additionalProperties": False, "required": required}
    properties = {name: dict(each) for name, each in described["properties"].items()}
    for name, each in properties.items():
        if name in required:  # it has one for want of another value
            each.pop("default", None)
        elif "type" in each and each["type"] != "null":
            properties[name] = {"anyOf": [each, {"type": "null"}]}
    return described | {"properties": properties}
