"""Where settings come from: the environment, files that it names, and a settings file.

A variable goes before the settings file, which goes before the default. Nothing is read twice, and
what cannot be read is a fault with its place.
"""

import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import attrs

from cronhare.adapters.addresses import certificates_beside
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES, EVENT_VARIABLES

#: Names the settings file, as `--config` does.
CONFIG: Final = "CRON_CONFIG"
FILE_NAME: Final = "cronhare.toml"
SYSTEM_FILE: Final = Path("/etc/cronhare") / FILE_NAME

PREFIX: Final = "CRON_"
FROM_FILE: Final = "_FILE"

_NAME: Final = re.compile(r"[a-z0-9_]{1,40}")


@attrs.frozen(kw_only=True)
class SettingText:
    """A setting's text, and where it was found. *name* is what that place calls it."""

    name: str
    text: str = attrs.field(repr=False)
    source: str


@attrs.frozen
class Sources:
    """What was found: texts by setting, faults of the places.

    *unknown* are variables that mean nothing, each with the one that was probably meant.
    """

    found: Mapping[str, SettingText]
    faults: tuple[str, ...] = ()
    file: Path | None = None
    unknown: Mapping[str, str | None] = attrs.field(factory=dict[str, str | None])

    def say_unknown(self) -> Iterator[str]:
        for name, meant in self.unknown.items():
            yield f"{name} means nothing here{_hint(meant)}"


def read_sources(known: Collection[str], secrets: Collection[str]) -> Sources:
    """Look for the settings *known*, in lower case; of them *secrets* may hold passwords."""
    faults: list[str] = []
    found, file = _from_settings_file(known, secrets, faults)
    found.update(_from_environment(known, faults))
    return Sources(found, tuple(faults), file, dict(_unknown(known)))


def find_setting(name: str, default: str) -> str:
    found = read_sources({name}, {name}).found
    return found[name].text if name in found else default


def settings_files() -> Iterator[Path]:
    """Name the places where a settings file is looked for; the first that is there counts."""
    if named := os.environ.get(CONFIG, "").strip():
        yield Path(named)
        return
    yield Path(FILE_NAME)
    # Without a home, as some users of containers are, this names a place where nothing is.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - it never fails
    yield Path(home) / "cronhare" / FILE_NAME
    yield SYSTEM_FILE


def _from_environment(known: Collection[str], faults: list[str]) -> dict[str, SettingText]:
    found: dict[str, SettingText] = {}
    for key in known:
        name = f"{PREFIX}{key.upper()}"
        plain, path = (os.environ.get(each, "").strip() for each in (name, name + FROM_FILE))
        if plain and path:
            faults.append(f"{name}: {name}{FROM_FILE} is set as well: keep one of them")
        elif plain:
            found[key] = SettingText(name=name, text=plain, source="environment")
        elif path:
            _add_from_file(found, faults, key, f"{name}{FROM_FILE}", Path(path))
    return found


def _from_settings_file(
    known: Collection[str], secrets: Collection[str], faults: list[str]
) -> tuple[dict[str, SettingText], Path | None]:
    files = [*settings_files()]
    is_named = len(files) == 1
    # A link that leads nowhere is there, too.
    path = next((each for each in files if is_named or os.path.lexists(each)), None)
    if path is None:
        return {}, None
    try:
        table = tomllib.loads(_read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # it may quote a password
        place = str(error).rpartition("(")[2].removesuffix(")")
        text = 'a text stands between quotes: queue_type = "classic"'
        faults.append(f"{path}: is not TOML ({place}); {text}")
    except ValueError as error:
        faults.append(f"{path} {error}")
    else:
        faults += _not_safe(path, [key for key in secrets if _holds_password(table.get(key, ""))])
        return _texts(table, path, known, faults), path
    return {}, path


def _texts(
    table: Mapping[str, Any], path: Path, known: Collection[str], faults: list[str]
) -> dict[str, SettingText]:
    found: dict[str, SettingText] = {}
    for key, value in table.items():
        setting = key if key in known else key.removesuffix("_file")
        name, text = f"{key} in {path}", _text(value)
        if setting not in known:
            faults.append(f"{path}: {_unknown_key(key, known)}")
        elif isinstance(value, list) and setting.endswith("_url"):
            faults.append(f"{path}: {key} must be one text, and no list")
        elif text is None:
            faults.append(f"{path}: {key} must be a text, a number, true, false or a list of texts")
        elif setting == key:
            text = _beside(key, text, path.parent)
            found[key] = SettingText(name=name, text=text, source=str(path))
        elif setting in table:
            faults.append(f"{path}: {key}: {setting} is there as well: keep one of them")
        else:
            _add_from_file(found, faults, setting, name, path.parent / text)
    return found


def _text(value: object) -> str | None:
    match value:
        case bool():
            return "on" if value else "off"
        case str() | int() | float():
            return str(value).strip()
        case list() if all(isinstance(each, str) and "," not in each for each in value):
            return ",".join(value)
    return None


def _beside(key: str, text: str, folder: Path) -> str:
    head = "sqlite:///"
    if key == "jobs":
        return str(folder / text)
    if text.startswith(head) and text not in {head, f"{head}:memory:"}:
        return f"{head}{folder / text.removeprefix(head)}"
    return certificates_beside(text, folder.absolute()) if key.endswith("_url") else text


def _unknown_key(key: str, known: Collection[str]) -> str:
    """Quote what could be a name, and nothing else: a URL may stand where its name should."""
    if not _NAME.fullmatch(key):
        return "a key is no name of a setting: these have a-z, 0-9 and _, as in queue_type"
    return f"'{key}' is not known{_hint(_closest(key, known))}"


def _not_safe(path: Path, secrets: Collection[str]) -> Iterator[str]:
    """Refuse a file that somebody else may write, or read where it holds a password."""
    there = path.stat()
    if there.st_uid not in {0, os.geteuid()}:
        yield f"{path} belongs to another user: it is not read; chown it, or name another file"
    if there.st_mode & stat.S_IWOTH:
        yield f"{path} can be written by every user of this machine: chmod o-w it"
    if secrets and there.st_mode & stat.S_IROTH:
        names = ", ".join(sorted(secrets))
        yield (
            f"{path} can be read by every user of this machine, and has {names}: chmod 600 it, or "
            f"put that into a file of its own ({min(secrets)}_file)"
        )


def _holds_password(value: object) -> bool:
    """Whether a secret is one, in whatever form: a URL without a user is none."""
    text = _text(value)
    return text is None or bool(text and ("@" in text or "://" not in text))


def _add_from_file(
    found: dict[str, SettingText], faults: list[str], key: str, name: str, path: Path
) -> None:
    try:
        if text := _read_text(path).strip():
            found[key] = SettingText(name=name, text=text, source=str(path))
        else:
            faults.append(f"{name}: {path} is empty")
    except ValueError as error:
        faults.append(f"{name}: {path} {error}")


def _read_text(path: Path) -> str:
    """Read a file of text. Raises ValueError: it cannot be read; its text continues the path."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8 text") from None


def _unknown(known: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Find variables that mean nothing; some are a task's, which may call a command."""
    settings = (f"{PREFIX}{key.upper()}{end}" for key in known for end in ("", FROM_FILE))
    variables = {CONFIG, *ATTEMPT_VARIABLES, *EVENT_VARIABLES, *settings}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in variables:
            yield name, _closest(name, variables)


def _closest(name: str, known: Collection[str]) -> str | None:
    return next(iter(get_close_matches(name[:64], sorted(known), n=1)), None)


def _hint(meant: str | None) -> str:
    return f"; did you mean {meant}?" if meant else ""
