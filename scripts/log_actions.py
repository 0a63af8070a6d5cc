"""Writes `docs/reference/log-actions.md`: every action of the log, read from the code.

Run it after a change:  python -m scripts.log_actions
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "log-actions.md"

_HEAD: Final = """\
# Log actions

Each line of the log has an action beside its sentence: `"action"` with `CRON_LOG_FORMAT=json`.
Actions are stable; sentences are for people, and may change. What to do about a warning or an error
is in [what the log says](../operators.md#what-the-log-says-and-what-to-do). A line about an
execution has `type`, `id`, `scheduler_id`, `execution`, `attempt` and `schedule` too, and each line
its `node`.

Made from the code by `python -m scripts.log_actions`.

| action | level | has besides | said by |
| --- | --- | --- | --- |
"""

#: How levels are called in the log; what is decided when it is said has several.
_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "ERROR", "exception": "ERROR", "error": "ERROR"}


@attrs.frozen
class Said:
    """A place of the code that says something."""

    action: str
    level: str
    fields: frozenset[str]
    module: str


def said() -> Iterator[Said]:
    """Find all that the code says."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = str(path.relative_to(ROOT / "src"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _of_call(node, module)


def _of_call(call: ast.Call, module: str) -> Iterator[Said]:
    named = {each.arg: each.value for each in call.keywords if each.arg}
    match call.func, call.args:
        case ast.Name("say"), [_, level, ast.Constant(str(action)), *_]:
            fields = frozenset(named.keys() - {"stack", "about"})
            yield Said(action, _level(level), fields, module)
        case ast.Attribute(attr=how), _ if "extra" in named:
            for action in _actions(named["extra"]):
                yield Said(action, _LEVELS.get(how, how.upper()), frozenset(), module)


def _level(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(name) if name.isupper():
            return _LEVELS.get(name, name)
    return "varies"


def _actions(extra: ast.expr) -> Iterator[str]:
    if isinstance(extra, ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            match key, value:
                case ast.Constant("action"), ast.Constant(str(action)):
                    yield action


def page() -> str:
    """Write the page."""
    found = defaultdict[str, list[Said]](list)
    for each in said():
        found[each.action].append(each)
    return _HEAD + "".join(_row(action, found[action]) for action in sorted(found))


def _row(action: str, places: list[Said]) -> str:
    levels = ", ".join(sorted({place.level for place in places}))
    fields = ", ".join(f"`{name}`" for name in sorted(set().union(*(p.fields for p in places))))
    modules = ", ".join(f"`{name}`" for name in sorted({place.module for place in places}))
    return f"| `{action}` | {levels} | {fields or 'nothing'} | {modules} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
