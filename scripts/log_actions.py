"""Keeps `docs/reference/log-actions.md` as the code says: actions, their levels and fields.

What happened and what to do is written on the page by hand, and kept. After a change run
`python -m scripts.log_actions`, and write what a new row means. Quiet lines without a row, or with
nothing to do, are named below the table.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "log-actions.md"

_TABLE: Final = (
    "| action | level, fields | what happened | what to do |\n| --- | --- | --- | --- |\n"
)
_ROW: Final = re.compile(r"(?m)^\| `([a-z._-]+)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$")

_ROUTINE: Final = "\nRoutine, with nothing to do: "
_NAMED: Final = re.compile(r"`([a-z._-]+)`")
_QUIET: Final = {"DEBUG", "INFO", "SUCCESS"}

#: Levels as the log calls them.
_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "ERROR", "exception": "ERROR", "error": "ERROR"}


@attrs.frozen
class Said:
    """A place of the code that says something."""

    action: str
    level: str
    fields: frozenset[str] = frozenset()


def said() -> Iterator[Said]:
    """Find all that the code says; a bare text that looks like an action has no level."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _of_call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Said(node.value, "")


def _of_call(call: ast.Call) -> Iterator[Said]:
    named = {each.arg: each.value for each in call.keywords if each.arg}
    match call.func, call.args:
        case ast.Name("say"), [_, level, ast.Constant(str(action)), *_]:
            yield Said(action, _level(level), frozenset(named.keys() - {"stack", "about"}))
        case ast.Attribute(attr=how), _ if isinstance(extra := named.get("extra"), ast.Dict):
            for key, value in zip(extra.keys, extra.values, strict=True):
                match key, value:
                    case ast.Constant("action"), ast.Constant(str(action)):
                        yield Said(action, _LEVELS.get(how, how.upper()))


def _level(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(name) if name.isupper():
            return _LEVELS.get(name, name)
    return "varies"


def page() -> str:
    """Write the page anew, with the texts that it has."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(_TABLE)
    table, _, routine = rest.partition(_ROUTINE)
    texts = {action: (happened, cure) for action, happened, cure in _ROW.findall(table)}
    known = {*texts, *_NAMED.findall(routine)}
    found = defaultdict[str, list[Said]](list)
    for each in said():
        if each.level or each.action in known:
            found[each.action].append(each)
    rows, quiet = [], []
    for action, places in sorted(found.items()):
        levels = {place.level for place in places} - {""}
        _, cure = texts.get(action, ("", "nothing"))
        if cure == "nothing" and levels <= _QUIET:
            quiet.append(f"`{action}`")
        else:
            rows.append(_row(action, places, *texts.get(action, ("", ""))))
    named = fill(f"{_ROUTINE.strip()} {', '.join(quiet)}.", 130, break_on_hyphens=False)
    return f"{head}{_TABLE}{''.join(rows)}\n{named}\n"


def _row(action: str, places: list[Said], happened: str, cure: str) -> str:
    levels = sorted({place.level for place in places} - {""}) or ["varies"]
    fields = [f"`{name}`" for name in sorted(set().union(*(p.fields for p in places)))]
    return f"| `{action}` | {', '.join([*levels, *fields])} | {happened} | {cure} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
