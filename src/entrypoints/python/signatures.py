"""A task's parameters, checked against its function's signature: where bound, and at a run.

They are JSON by name. msgspec converts them; a class of Pydantic, or any other with
`model_validate` and `model_dump`, checks its own.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cronhare.task import PermanentError

from .context import Context

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    """The parameters of *function*, without a first one that is annotated as `Context`."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Read them.

        Raises:
            TypeError: one cannot be given by its name.
        """
        self._function = function
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and _is_context(parameters[0].annotation)
        self._parameters = parameters[1:] if self.takes_context else parameters
        self._bare = inspect.Signature(self._parameters)
        self._struct: Any = None
        for each in self._parameters:
            if each.kind not in _NAMED:
                raise TypeError(
                    f"task {function.__qualname__}: parameter {each} cannot be given by its name, "
                    "as JSON needs; name each parameter, and let none be positional only"
                )

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """Give the arguments of a call as JSON values by name.

        Raises:
            TypeError: they do not fit; as if the function was called so.
        """
        import msgspec  # noqa: PLC0415 - an app that binds nothing does not wait for it

        name = self._function.__name__
        try:
            given = self._bare.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        try:
            plain: dict[str, Any] = msgspec.to_builtins(dict(given), enc_hook=_dump, str_keys=True)
            self.convert(plain)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise TypeError(f"{name}(): {_said(error)}") from None
        return plain

    def arguments(self, params: object) -> dict[str, Any]:
        """Give a run's *params* as the function wants them.

        Raises:
            PermanentError: they do not fit; it names the parameter.
        """
        import msgspec  # noqa: PLC0415 - see bind

        try:
            return self.convert(params)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            takes = ", ".join(map(str, self._parameters)) or "none"
            text = f"params: {_said(error)}; {self._function.__name__} takes: {takes}"
            raise PermanentError(text, code="PARAMS_INVALID") from error

    def convert(self, params: object) -> dict[str, Any]:
        """Convert *params*; raises what msgspec, or the class of a parameter, raises."""
        import msgspec  # noqa: PLC0415 - see bind

        if self._struct is None:
            self._struct = self._make_struct()
        converted = msgspec.convert(params, self._struct, dec_hook=_validate)
        given = params if isinstance(params, dict) else {}
        return {
            each.name: getattr(converted, each.name)
            for each in self._parameters
            if each.name in given
        }

    def _make_struct(self) -> Any:  # noqa: ANN401 - a class that is made here
        import typing  # noqa: PLC0415 - see bind

        import msgspec  # noqa: PLC0415 - see bind

        hints = typing.get_type_hints(self._function, include_extras=True)
        fields = [
            (each.name, hints.get(each.name, Any))
            if each.default is each.empty
            else (each.name, hints.get(each.name, Any), msgspec.field(default_factory=lambda: None))
            for each in self._parameters
        ]
        return msgspec.defstruct("Params", fields, kw_only=True, forbid_unknown_fields=True)


def converted_result(function: Callable[..., object], value: object) -> Any:  # noqa: ANN401
    """Give a run's result, which is JSON, as *function* is annotated to return it, if it fits."""
    import typing  # noqa: PLC0415 - few ask for results

    import msgspec  # noqa: PLC0415 - likewise

    hints = typing.get_type_hints(function, include_extras=True)
    kind = hints.get("return", Any)
    try:
        return msgspec.convert(value, kind, dec_hook=_validate)
    except (msgspec.ValidationError, TypeError):  # it was made by another version
        return value


def _is_context(annotation: object) -> bool:
    if isinstance(annotation, str):  # with `from __future__ import annotations`
        return annotation.rpartition(".")[2] == Context.__name__
    return annotation is Context


def _dump(value: Any) -> object:  # noqa: ANN401 - anything
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _validate(kind: Any, value: object) -> object:  # noqa: ANN401 - a class
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"nothing makes a {kind} of JSON")


def _said(error: Exception) -> str:
    r"""Say what is wrong, the place first: msgspec has it last, as "at `$.limit`"."""
    text, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    said = text[:1].lower() + text[1:]
    return f"{field}: {said}" if field else said
