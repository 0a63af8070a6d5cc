"""What the API says of itself at `/openapi.json`."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

import attrs
import msgspec
from fastapi import FastAPI

from cronhare.adapters.jobs.tables import REQUIRED

from .. import problems
from .operations import REF, Operation


class Api(FastAPI):
    """An application that describes the house's own values; FastAPI knows only pydantic's."""

    def openapi(self) -> dict[str, Any]:
        """Describe it; made once."""
        if self.openapi_schema is None:
            operations = [each for each in self.routes if isinstance(each, Operation)]
            bodies = {kind for each in operations if (kind := each.takes) is not None}
            views = {kind for each in operations if (kind := each.gives) is not None}
            kinds = sorted(bodies | views, key=lambda kind: kind.__name__)
            _, components = msgspec.json.schema_components(kinds, ref_template=REF)
            described = super().openapi()
            described["components"] = {
                "schemas": {name: _tidy(each) for name, each in components.items()}
                | {kind.__name__: _body(kind, components[kind.__name__]) for kind in bodies}
                | {"Problem": problems.SCHEMA}
            }
        return super().openapi()


def _tidy(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = dict(schema)
    if "description" in described:
        described["description"] = cleandoc(described["description"])
    return described


def _body(kind: type[attrs.AttrsInstance], schema: Mapping[str, Any]) -> dict[str, Any]:
    required = [field.name for field in attrs.fields(kind) if field.metadata == REQUIRED]
    described = _tidy(schema) | {"additionalProperties": False, "required": required}
    for field in required:  # it has one for want of another value
        described["properties"][field].pop("default", None)
    return described
