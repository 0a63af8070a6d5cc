"""What commands and SQL are given as a password without a name: `mysql -pX`, `PASSWORD 'x'`."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from .secret_values import HIDDEN, end_of_value, hide, is_pair


@attrs.frozen(kw_only=True)
class _Option:
    """How a command takes a password: an option's letters, and whether a blank may follow."""

    letters: str
    is_apart: bool = True
    with_user: bool = False

    def takes(self, text: str, start: int = 0) -> bool:
        return len(text) > start and (not self.with_user or is_pair(text, start))


#: To `mysql -p shop` a blank says that it is to ask.
_COMMANDS: Final = {
    r"(?:mysql|mariadb)[\w-]{0,30}": _Option(letters="p", is_apart=False),
    r"sshpass": _Option(letters="p"),
    r"redis-cli": _Option(letters="a"),
    r"mongo[a-z]{0,10}": _Option(letters="p"),
    r"ldap[a-z]{1,10}": _Option(letters="w"),
    r"sqlcmd": _Option(letters="P"),
    r"curl": _Option(letters="uU", with_user=True),
}
_FORMS: Final = dict(enumerate(_COMMANDS.values()))
_ANY_COMMAND: Final = "|".join(rf"(?P<c{at}>{each})" for at, each in enumerate(_COMMANDS))
#: A command of a list of words, with its folder or without.
_PROGRAM: Final = re.compile(rf"(?:.{{0,200}}/)?(?i:{_ANY_COMMAND})(?:\.exe)?")
#: What a command line is read by: the line goes on behind a backslash, or with an option.
_MARK: Final = re.compile(
    rf"\\\r?\n|\b(?i:{_ANY_COMMAND})(?![\w-])"
    r"|(?P<end>[;|&]|\n(?![ \t]{0,80}(?:-[ ])?[\"']?-))"
    r"|(?P<quote>(?<!\\)\\*[\"'])"
    r"|(?<=[\s\"'(\[,])-(?P<option>[A-Za-z])"
)
#: What may stand between an option and what is apart from it, also in a list of words.
_APART: Final = re.compile(r"(?:\\*[\"'],?)?(?:\s|\\\r?\n){1,80}|\\*[\"'],")
#: `-password x` of a command that also has `-px`: either may be meant, so both are hidden.
_NAMED: Final = re.compile(
    r"-\w{0,60}(?i:pass(?:code|phrase|w(?:or[dt]|d))?|pwd|auth|secret|token|key)"
    r"(?:\\*[\"'],?)?(?:\s|\\\r?\n){1,80}"
)
#: A quote that closes what began before the command, and one that seems to close a word of a list.
_OUTER: Final = re.compile(r"(?<![\s=])\\*[\"']\s")
_CLOSING: Final = re.compile(r"[,)\]};]|\Z")
#: Two words that are no options: people speak of the command. `-parallel` is a word of theirs.
_PROSE: Final = re.compile(r"[,.]?(?:[ \t]+[A-Za-z]\S{0,60}){2}")
_WORD: Final = re.compile(r"[a-z]+[.,;:)]?")


def without_given(text: str) -> str:
    """Hide the passwords that commands and statements are given in a text.

    >>> without_given("mysql -u root -e 'a; b' -phunter2 shop; mkdir -pv x")
    "mysql -u root -e 'a; b' -p*** shop; mkdir -pv x"
    >>> without_given("ALTER ROLE ada PASSWORD 'hunter2'")
    'ALTER ROLE ada PASSWORD ***'
    """
    text = hide(text, _CommandLines(text).values())
    return hide(text, _in_statements(text))


def words_without_given(words: Iterable[Any]) -> Iterator[Any]:
    """Hide the same in a list of words, as processes are started with.

    >>> list(words_without_given(["sshpass", "-p", "hunter2", "mysql", "-phunter3"]))
    ['sshpass', '-p', '***', 'mysql', '-p***']
    """
    options = dict[str, _Option]()
    before: _Option | None = None
    for word in words:
        if not isinstance(word, str):
            before = None
            yield word
            continue
        option = options.get(word[1:2]) if word.startswith("-") else None
        if before and before.takes(word):
            yield HIDDEN
        elif option and option.takes(word, len("-p")):
            yield word[:2] + HIDDEN
        else:
            yield word
        before = option if option and option.is_apart and len(word) == len("-p") else None
        if program := _PROGRAM.fullmatch(word[:300]):
            options |= _options_of(program)


def _options_of(command: re.Match[str]) -> dict[str, _Option]:
    option = _FORMS[int((command.lastgroup or "c0")[1:])]
    return dict.fromkeys(option.letters, option)


class _CommandLines:
    """Reads a text once, from mark to mark: what it costs grows as the text does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end()

    def _end(self) -> None:
        self._options = dict[str, _Option]()
        self._quote = ""
        self._quoted_from = 0
        self._is_prose = False

    def values(self) -> Iterator[tuple[int, int]]:
        done = 0
        for mark in _MARK.finditer(self._text):
            if mark.start() >= done and (value := self._read(mark)):
                done = value[1]
                yield value

    def _read(self, mark: re.Match[str]) -> tuple[int, int] | None:
        match mark.lastgroup:
            case None:
                pass
            case "end":
                if not self._quote:
                    self._end()
            case "quote":
                self._pass_quote(mark)
            case "option":
                return self._given(mark)
            case _:
                if not self._options:
                    self._is_prose = _PROSE.match(self._text, mark.end()) is not None
                self._options |= _options_of(mark)
        return None

    def _pass_quote(self, mark: re.Match[str]) -> None:
        if self._quote:
            self._quote = "" if mark[0] == self._quote else self._quote
        elif _OUTER.match(self._text, mark.start()):
            self._end()
        elif not _CLOSING.match(self._text, mark.end()):
            self._quote, self._quoted_from = mark[0], mark.end()

    def _given(self, mark: re.Match[str]) -> tuple[int, int] | None:
        option, apart = self._options.get(mark["option"]), _APART.match(self._text, mark.end())
        if option is None or (apart and not option.is_apart):
            return None
        start = apart.end() if apart else mark.end()
        if not option.takes(self._text, start):
            return None
        end = end_of_value(self._text, start) if apart else self._end_of_attached(mark)
        if not apart and (named := _NAMED.match(self._text, mark.start())):
            end = end_of_value(self._text, named.end())
        if end == start or (self._is_prose and _WORD.fullmatch(self._text, start, end)):
            return None
        if apart:
            self._quote = ""
        return start, end

    def _end_of_attached(self, mark: re.Match[str]) -> int:
        start = mark.end()
        if self._quote and self._quoted_from == mark.start():  # "-pa b"
            end = self._text.find(self._quote, start)
            return len(self._text) if end < 0 else end
        is_over = self._quote and self._text.startswith(self._quote, start)
        return start if is_over else end_of_value(self._text, start)


#: What stands before a password in SQL, which is in quotes: people identify things by others, too.
_STATEMENT: Final = re.compile(
    r"(?:\bidentified\s{1,8}(?:(?:with|via)\s{1,8}\S{1,100}\s{1,8})?(?:by|as|using)\s{1,8}(?:password\s{1,8})?"
    r"|\bset\s{1,8}password\s{1,8}for\s{1,8}\S{1,200}\s{0,8}=\s{0,8}"
    r"|(?<![^\W_])password(?:\s{1,8}|\s{0,8}\(\s{0,8}))(?=[en]?\\*[\"'])",
    re.IGNORECASE,
)


def _in_statements(text: str) -> Iterator[tuple[int, int]]:
    done = 0
    for found in _STATEMENT.finditer(text):
        if found.start() >= done:
            done = end_of_value(text, found.end())
            yield found.end(), done
