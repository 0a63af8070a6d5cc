"""What the API says of itself at `/openapi.json`: made from its operations (OpenAPI 3.1)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc, getdoc
from typing import Any, Final, get_args, get_origin

import attrs
import msgspec

from cronhare.domain.reading import REQUIRED

from .. import problems
from ..operations import Operation

_REF: Final = "#/components/schemas/{name}"

#: How who asks is known, in the words of OpenAPI.
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token that `cronhare tokens create` made. Each operation says in `x-scope` "
    "which scope it needs.",
}

#: What every operation may answer instead: it is not known who asks; a page of another site does,
#: or one that may not; it is not this host that is meant; a parameter is none; too many tokens were
#: tried; no such answer is taken; the ledger is away.
ALWAYS: Final = (401, 403, 406, 421, 422, 429, 503)
OF_BODIES: Final = (400, 413, 415)


def describe(operations: Sequence[Operation], *, title: str, version: str) -> dict[str, Any]:
    queries = {each.query for each in operations if each.query is not None}
    bodies = {each.body for each in operations if each.body is not None}
    kinds = {kind for each in operations for kind in _given(each)} | queries | bodies
    by_name = sorted(kinds, key=lambda kind: str(kind.__name__))
    _, components = msgspec.json.schema_components(by_name, ref_template=_REF)
    schemas = {name: _tidy(each) for name, each in components.items()}
    fields = {query: schemas.pop(query.__name__)["properties"] for query in queries}
    schemas |= {kind.__name__: _body(kind, schemas[kind.__name__]) for kind in bodies}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        of_query = {} if each.query is None else fields[each.query]
        paths.setdefault(each.path_format, {})[each.declared.method.lower()] = _operation(
            each, of_query
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas | {"Problem": problems.SCHEMA},
            "securitySchemes": {"token": _TOKEN},
        },
        # The other is a request straight from this machine, as long as it needs none.
        "security": [{"token": []}, {}],
    }


def _operation(operation: Operation, of_query: Mapping[str, Any]) -> dict[str, Any]:
    name = operation.name
    content = {problems.MEDIA_TYPE: {"schema": _ref("Problem")}}
    refused = {"description": "a problem", "content": content}
    refuses = {*operation.declared.refuses, *ALWAYS, *(OF_BODIES if operation.body else ())}
    refuses |= {404} if operation.param_convertors else set()
    answers = {
        operation.declared.status: _answer(
            operation.declared.what, operation.gives, operation.declared.headers
        )
    }
    for status, (what, kind) in operation.declared.also.items():
        answers[status] = _answer(what, kind, {})
    if operation.declared.is_tagged and operation.declared.method == "GET":
        answers[304] = {"description": "it is as the ETag in If-None-Match has it"}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": name.replace("_", " ").capitalize(),
        "description": getdoc(operation.ask) or "",
        "x-scope": operation.declared.scope.word,
        "parameters": [*_parameters(operation, of_query)],
        "responses": {
            str(status): answer
            for status, answer in sorted((dict.fromkeys(refuses, refused) | answers).items())
        },
    }
    if operation.body is not None:
        body = {"application/json": {"schema": _ref(operation.body.__name__)}}
        described["requestBody"] = {"required": operation.declared.needs_body, "content": body}
    return described


def _parameters(operation: Operation, of_query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in operation.param_convertors:
        schema = msgspec.json.schema(operation.takes[name])
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for name, schema in of_query.items():
        yield {"name": name, "in": "query", "required": False, "schema": schema}
    for name, kind in operation.headers.values():
        schema = msgspec.json.schema(kind)
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _answer(what: str, gives: Any, said: Mapping[str, str]) -> dict[str, Any]:  # noqa: ANN401
    answer: dict[str, Any] = {"description": what}
    if gives is str:
        answer["content"] = {"text/plain": {"schema": {"type": "string"}}}
    elif kinds := [*_kinds(gives)]:
        schema: dict[str, Any] = _ref(kinds[0].__name__)
        if get_origin(gives) is Sequence:
            schema = {"type": "array", "items": schema}
        answer["content"] = {"application/json": {"schema": schema}}
    if said:
        text = {"type": "string"}
        answer["headers"] = {
            name: {"description": each, "schema": text} for name, each in said.items()
        }
    return answer


def _given(operation: Operation) -> Iterator[Any]:
    for kind in (operation.gives, *(kind for _, kind in operation.declared.also.values())):
        yield from _kinds(kind)


def _kinds(gives: Any) -> Iterable[Any]:  # noqa: ANN401 - what an operation gives
    kind = get_args(gives)[0] if get_origin(gives) is Sequence else gives
    return () if kind in {str, type(None)} else (kind,)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _tidy(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = dict(schema)
    if "description" in described:
        described["description"] = cleandoc(described["description"])
    return described


def _body(kind: type[attrs.AttrsInstance], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a body: what is null in it counts as not given, but for what must be."""
    required = [field.name for field in attrs.fields(kind) if field.metadata == REQUIRED]
    properties = {name: dict(each) for name, each in schema.get("properties", {}).items()}
    for name, each in properties.items():
        if name in required:  # it has one for want of another value
            each.pop("default", None)
        elif "type" in each and each["type"] != "null":
            properties[name] = {"anyOf": [each, {"type": "null"}]}
    closed = {"additionalProperties": False, "required": required, "properties": properties}
    return {**schema, **closed}
