"""Classes of errors that a jobs file names: by IPC code, by exception, by exit status."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from ..texts.printable import echo
from .outcome import LONGEST_CODE, ErrorClass, Outcome

#: What an error is known by, and the class of it.
ErrorRules = Mapping[str, ErrorClass]

#: The classes that a file may give, each with a list of codes, exceptions and exit statuses.
GIVEN: Final = (ErrorClass.TRANSIENT, ErrorClass.PERMANENT, ErrorClass.RATE_LIMITED)

#: The most errors that one table may name.
MOST_ERRORS: Final = 100

EXIT: Final = "exit:"
_EXIT_CODES: Final = range(1, 256)
_CODE: Final = re.compile(r"[1-9][0-9]{0,2}")
_NAME: Final = re.compile(r"[^\s:]+")


class ErrorRulesInvalid(ValueError):
    """A table of errors that cannot be used; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Join the faults into the message."""
        self.faults = faults
        super().__init__("; ".join(faults))


def read_error_rules(table: object) -> ErrorRules:
    """Read `{ transient = ["ECONNRESET", "exit:75"], permanent = ["KeyError"] }`.

    >>> read_error_rules({"permanent": ["exit:78"]})
    {'exit:78': <ErrorClass.PERMANENT: 'permanent'>}

    Raises:
        ErrorRulesInvalid: with every fault at once.
    """
    if not isinstance(table, Mapping):
        raise ErrorRulesInvalid((f"a table is expected, with {_names()}",))
    faults, rules = list[str](), dict[str, ErrorClass]()
    for name, entries in table.items():
        if name not in GIVEN:
            faults.append(f"{echo(name)} is no class of errors; there are {_names()}")
        elif not isinstance(entries, list) or len(entries) > MOST_ERRORS:
            faults.append(f"{name}: a list of at most {MOST_ERRORS} texts is expected")
        else:
            faults += _add(rules, ErrorClass(name), entries)
    if faults:
        raise ErrorRulesInvalid(tuple(faults))
    return rules


def classified(outcome: Outcome, rules: ErrorRules) -> Outcome:
    """Give the outcome with the class that *rules* have for its error.

    The nearest name counts: the code, the exception's class, its bases. An exit status says least:
    it counts where neither a rule nor the task has given a class. A success has no error.
    """
    error = outcome.error
    if error is None or not rules:
        return outcome
    names = filter(None, (error.code, *error.types))
    named = [rules[name] for name in names if name in rules]
    if not named and error.error_class is ErrorClass.UNKNOWN:
        by_exit = rules.get(f"{EXIT}{outcome.exit_code}")
        named = [] if by_exit is None else [by_exit]
    if not named:
        return outcome
    return attrs.evolve(outcome, error=attrs.evolve(error, error_class=named[0]))


def _add(rules: dict[str, ErrorClass], kind: ErrorClass, entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if (problem := _problem(entry)) is not None:
            yield f"{kind}: {problem}"
        elif rules.setdefault(entry, kind) is not kind:
            yield f"{kind}: {echo(entry)} is {rules[entry]} already"


def _problem(entry: object) -> str | None:
    if not isinstance(entry, str) or not 0 < len(entry) <= LONGEST_CODE:
        return f"{echo(entry)} is not a text of 1 to {LONGEST_CODE} characters"
    if not entry.startswith(EXIT):
        allowed = 'a code such as "ECONNRESET", an exception such as "TimeoutError", or "exit:75"'
        is_name = entry.isprintable() and _NAME.fullmatch(entry)
        return None if is_name else f"{echo(entry)} is not {allowed}"
    code = _CODE.fullmatch(entry.removeprefix(EXIT))
    if code and int(code[0]) in _EXIT_CODES:
        return None
    return f"{echo(entry)}: an exit status that fails is {_EXIT_CODES[0]}-{_EXIT_CODES[-1]}"


def _names() -> str:
    return ", ".join(GIVEN)
