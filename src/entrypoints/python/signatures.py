"""A task's parameters, checked against its function's signature: where bound, and at a run.

They are JSON by name. msgspec converts them; a class of Pydantic, or any other with
`model_validate_json` and `model_dump`, checks its own.
"""

# ruff: noqa: PLC0415 - an app that binds nothing does not wait for msgspec

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from cronhare.task import PermanentError

from .words import Context

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    """The parameters of *function*, without a first one that is annotated as `Context`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", repr(function))
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and _is_context(parameters[0].annotation)
        self._parameters = parameters[1:] if self.takes_context else parameters
        self._bare = inspect.Signature(self._parameters)
        self._struct: Any = None
        for each in self._parameters:
            if each.name == "self":
                raise TypeError(f"task {self._name}: nobody gives it self; write `ctx: Context`")
            if _is_context(each.annotation):
                raise TypeError(f"task {self._name}: a Context is the first parameter, or none")
            if each.kind not in _NAMED:
                raise TypeError(
                    f"task {self._name}: parameter {each} cannot be given by its name, "
                    "as JSON needs; name each parameter, and let none be positional only"
                )

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """Give the arguments of a call as JSON values by name.

        Raises:
            TypeError: they do not fit; as if the function was called so.
        """
        try:
            given = self._bare.bind(*args, **kwargs).arguments
            plain = {name: _json(name, value) for name, value in given.items()}
            self.convert(plain)
        except (ValueError, TypeError) as error:
            raise TypeError(f"{self._name}(): {_said(error)}") from error
        return plain

    def arguments(self, params: object) -> dict[str, Any]:
        """Give a run's *params* as the function wants them.

        Raises:
            PermanentError: they do not fit; it names the parameter.
        """
        try:
            return self.convert(params)
        except (ValueError, TypeError) as error:  # of msgspec as well
            takes = ", ".join(map(str, self._parameters)) or "none"
            text = f"params: {_said(error)}; {self._name} takes: {takes}"
            raise PermanentError(text, code="PARAMS_INVALID") from error

    def convert(self, params: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Convert *params*; raises what msgspec, or the class of a parameter, raises."""
        import msgspec

        if self._struct is None:
            hints = _hints(
                self._function, {each.name: each.annotation for each in self._parameters}
            )
            fields = [
                (each.name, hints[each.name], *([] if each.default is each.empty else [None]))
                for each in self._parameters
            ]
            self._struct = msgspec.defstruct(
                "Params", fields, kw_only=True, forbid_unknown_fields=True
            )
        converted = msgspec.convert(params, self._struct, dec_hook=_validate, str_keys=True)
        names = (each.name for each in self._parameters)
        return {name: getattr(converted, name) for name in names if name in params}


def json_params(name: str, kind: type | None, said: object) -> dict[str, Any]:
    """Give the parameters of a task that is elsewhere as JSON values by name.

    *said* is of a *kind*, or a mapping that fits it.

    Raises:
        TypeError: it is not.
    """
    import msgspec

    try:
        if kind is not None and not isinstance(said, kind):
            said = msgspec.convert(_json(name, said), kind, dec_hook=_validate, str_keys=True)
        plain = _json(name, said)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name}: {_said(error)}") from error
    if not isinstance(plain, dict):
        raise TypeError(f"{name}: {type(said).__name__} is no object of parameters by their names")
    return plain


def converted_result(function: Callable[..., object], value: object) -> Any:  # noqa: ANN401
    """Give a run's result, which is JSON, as *function* is annotated to return it, if it fits."""
    import msgspec

    try:
        kind = _hints(function, {"it": inspect.signature(function).return_annotation})["it"]
        return msgspec.convert(value, kind, dec_hook=_validate, str_keys=True)
    except (ValueError, TypeError):  # it was made by another version
        return value


def _is_context(annotation: object) -> bool:
    if isinstance(annotation, str):  # with `from __future__ import annotations`
        return annotation.rpartition(".")[2] == Context.__name__
    return annotation is Context


def _hints(function: Callable[..., object], annotations: Mapping[str, object]) -> dict[str, Any]:
    """Read *annotations* of a function that may be texts; without one it is anything."""
    from typing import get_type_hints

    known = {
        name: Any if each is inspect.Parameter.empty else each for name, each in annotations.items()
    }
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=known), names, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"an annotation names {error.name}, which is not there at run time: import it outside "
            "of `if TYPE_CHECKING`, in the module that has the task"
        ) from None


def _json(name: str, value: object) -> Any:  # noqa: ANN401 - what JSON can hold
    """Make a value what it is once it was JSON: a tuple is a list."""
    import json

    import msgspec

    try:
        plain = msgspec.to_builtins(value, enc_hook=_dump, str_keys=True)
        return json.loads(json.dumps(plain, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise TypeError(f"{name}: {error}") from None


def _dump(value: Any) -> object:  # noqa: ANN401 - anything
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _validate(kind: Any, value: object) -> object:  # noqa: ANN401 - a class
    import json

    if kind is object:
        return value
    if not hasattr(kind, "model_validate_json"):
        raise TypeError(f"nothing makes {kind.__name__} of JSON")
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValueError as error:
        # Pydantic's text has each in three lines.
        faults: list[Any] = getattr(error, "errors", list)()
        said = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults]
        raise ValueError("; ".join(said) or str(error)) from error


def _said(error: Exception) -> str:
    r"""Say what is wrong, the place first: msgspec has it last, as "at `$.limit`"."""
    text, _, place = str(error).partition(" - at ")
    key, _, path = place.rpartition("`$")
    field = ("a key of " if key else "") + path.rstrip("`").lstrip(".")
    said = text[:1].lower() + text[1:]
    return f"{field}: {said}" if field else said
