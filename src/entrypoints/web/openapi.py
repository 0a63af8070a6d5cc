"""What the API says of itself at `/openapi.json`."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, Final

import attrs
import msgspec
from fastapi import FastAPI

from cronhare.adapters.jobs.tables import REQUIRED
from cronhare.application.administration.views.executions import ExecutionView

from . import problems
from .reports import GenerateReport
from .schedulers import NewScheduler, SchedulerView

_REF: Final = "#/components/schemas/{name}"
_BODIES: Final[Mapping[str, type[attrs.AttrsInstance]]] = {
    "NewScheduler": NewScheduler,
    "GenerateReport": GenerateReport,
}

#: Characters of an Idempotency-Key: a UUID, or whatever else the client has.
LONGEST_KEY: Final = 255


class Api(FastAPI):
    """An application that describes the house's own values; FastAPI knows only pydantic's."""

    def openapi(self) -> dict[str, Any]:
        """Describe it; made once."""
        if self.openapi_schema is None:
            kinds = (*_BODIES.values(), SchedulerView, ExecutionView)
            _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
            described = super().openapi()
            described["components"] = {
                "schemas": {name: _tidy(name, each) for name, each in components.items()}
                | {"Problem": problems.SCHEMA}
            }
        return super().openapi()


def _tidy(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    described = dict(schema)
    if "description" in described:
        described["description"] = cleandoc(described["description"])
    if (body := _BODIES.get(name)) is not None:
        required = [field.name for field in attrs.fields(body) if field.metadata == REQUIRED]
        described |= {"additionalProperties": False, "required": required}
        for field in required:  # it has one for want of another value
            described["properties"][field].pop("default", None)
    return described


def operation(body: str) -> dict[str, Any]:
    """Describe what is sent to an operation that creates something."""
    content = {"application/json": {"schema": {"$ref": _REF.format(name=body)}}}
    return {"requestBody": {"required": True, "content": content}}


def answers(status: int, content: str, what: str, *refusals: int) -> dict[int | str, Any]:
    """Describe the answers of an operation: what it gives, and the statuses of its problems."""
    given = {"application/json": {"schema": {"$ref": _REF.format(name=content)}}}
    problem = {problems.MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    refused = {"description": "a problem", "content": problem}
    described: dict[int | str, Any] = dict.fromkeys((*refusals, 403, 421, 422, 503), refused)
    return {status: {"description": what, "content": given}, **described}
