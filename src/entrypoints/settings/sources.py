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

from cronhare.adapters.plain_files import read_plain_file
from cronhare.adapters.toml import read_toml
from cronhare.domain.addresses.servers import certificates_beside
from cronhare.domain.environment import ATTEMPT_VARIABLES, EVENT_VARIABLES
from cronhare.domain.reading import MOST_FAULTS
from cronhare.domain.texts.words import first_faults

#: A setting, or a file of them, has so many bytes at most.
LONGEST_FILE: Final = 65_536


@attrs.frozen(kw_only=True)
class SettingText:
    """A setting's text, and where it was found. *name* is what that place calls it."""

    name: str
    text: str = attrs.field(repr=False)
    source: str


def add_from_file(
    found: dict[str, SettingText], faults: list[str], key: str, name: str, path: Path
) -> None:
    """Add the text in the file that *name* names; or to *faults* why there is none."""
    try:
        text = read_text(path).strip()
    except ValueError as error:
        faults.append(f"{name}: {path} {error}")
        return
    if not text:
        faults.append(f"{name}: {path} is empty")
    else:
        found[key] = SettingText(name=name, text=text, source=str(path))


def read_text(path: Path) -> str:
    """Read a small file of text.

    Raises:
        ValueError: it cannot be read; its text continues the path.
    """
    try:
        content = read_plain_file(path, most=LONGEST_FILE)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(content) > LONGEST_FILE:
        raise ValueError(f"is longer than {LONGEST_FILE:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8 text") from None


def closest(name: str, known: Collection[str]) -> str | None:
    """Give the known name that was probably meant."""
    close = get_close_matches(name[:64], sorted(known), n=1, cutoff=0.6)
    return close[0] if close else None


#: Names the settings file, as `--config` does.
CONFIG: Final = "CRON_CONFIG"
FILE_NAME: Final = "cronhare.toml"
SYSTEM_FILE: Final = Path("/etc/cronhare") / FILE_NAME

_NAME: Final = re.compile(r"[a-z0-9_]{1,40}")


def settings_files() -> Iterator[Path]:
    """Name the places where a settings file is looked for; the first that is there counts."""
    if named := os.environ.get(CONFIG, "").strip():
        yield Path(named)
        return
    yield Path(FILE_NAME)
    home = os.environ.get("XDG_CONFIG_HOME", "")
    yield (Path(home) if home else _home() / ".config") / "cronhare" / FILE_NAME
    yield SYSTEM_FILE


def read_settings_file(
    known: Collection[str], secrets: Collection[str], faults: list[str]
) -> tuple[dict[str, SettingText], Path | None]:
    """Read the settings *known* from the first file that is there; adds to *faults*."""
    is_named = bool(os.environ.get(CONFIG, "").strip())
    path = next((path for path in settings_files() if is_named or _is_there(path)), None)
    if path is None:
        return {}, None
    try:
        table = read_toml(read_text(path))
    except tomllib.TOMLDecodeError as error:
        faults.append(f"{path}: {_place_of(error)}")
    except ValueError as error:
        faults.append(f"{path} {error}")
    else:
        faults.extend(_not_safe(path, [key for key in secrets if _holds_password(table, key)]))
        return _texts(table, path, known, faults), path
    return {}, path


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry of this user
        return Path("/")


def _is_there(path: Path) -> bool:
    """Whether there is anything of that name, a link that leads nowhere included."""
    try:
        return path.is_symlink() or path.exists()
    except OSError:  # a folder that is closed to us, a name that is too long
        return False


def _place_of(error: tomllib.TOMLDecodeError) -> str:
    """Name a fault of the form by its place: its text may quote a piece of a password."""
    place = str(error).rpartition("(")[2].removesuffix(")")
    return f'is not TOML ({place}); a text stands between quotes: queue_type = "classic"'


def _texts(
    table: Mapping[str, Any], path: Path, known: Collection[str], faults: list[str]
) -> dict[str, SettingText]:
    found: dict[str, SettingText] = {}
    for key, value in table.items():
        if len(faults) > MOST_FAULTS:
            break
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
            add_from_file(found, faults, setting, name, path.parent / text)
    return found


def _unknown_key(key: str, known: Collection[str]) -> str:
    """Quote what could be a name, and nothing else: a URL may stand where its name should."""
    if not _NAME.fullmatch(key):
        return "a key is no name of a setting: these have a-z, 0-9 and _, as in queue_type"
    close = closest(key, known)
    return f"'{key}' is not known{f'; did you mean {close}?' if close else ''}"


def _beside(key: str, text: str, folder: Path) -> str:
    """Let a relative path begin where the file is that names it."""
    if key == "jobs":
        return str(folder / text)
    head = "sqlite:///"
    if text.startswith(head) and text not in {head, f"{head}:memory:"}:
        return f"{head}{folder / text.removeprefix(head)}"
    return certificates_beside(text, folder.absolute()) if key.endswith("_url") else text


def _text(value: object) -> str | None:
    match value:
        case bool():
            return "on" if value else "off"
        case str():
            return value.strip()
        case int() | float():
            return str(value) if abs(value) < 10**18 else "too large"
        case list() if all(isinstance(each, str) and "," not in each for each in value):
            return ",".join(value)
    return None


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


def _holds_password(table: Mapping[str, Any], key: str) -> bool:
    """Whether a secret is one, in whatever form: a URL without a user is none."""
    text = _text(table[key]) if key in table else ""
    return text is None or bool(text and ("@" in text or "://" not in text))


PREFIX: Final = "CRON_"
FROM_FILE: Final = "_FILE"


@attrs.frozen
class Unknown:
    """A variable that means nothing, and the one that was probably meant."""

    name: str
    meant: str | None

    def __str__(self) -> str:
        hint = f"; did you mean {self.meant}?" if self.meant else ""
        return f"{self.name} means nothing here{hint}"


@attrs.frozen
class Sources:
    """What was found: texts by setting, faults of the places, names that mean nothing."""

    found: Mapping[str, SettingText]
    faults: tuple[str, ...] = ()
    file: Path | None = None
    unknown: tuple[Unknown, ...] = ()


def read_sources(known: Collection[str], secrets: Collection[str]) -> Sources:
    """Look for the settings *known*, in lower case; of them *secrets* may hold passwords."""
    faults: list[str] = []
    found, file = read_settings_file(known, secrets, faults)
    found.update(_from_environment(known, faults))
    first = first_faults(faults, MOST_FAULTS, as_fault=str)
    return Sources(found, first, file, tuple(_unknown(known)))


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
            add_from_file(found, faults, key, f"{name}{FROM_FILE}", Path(path))
    return found


def _variables(known: Collection[str]) -> frozenset[str]:
    """Name all variables that mean something; some are a task's, which may call a command."""
    settings = (f"{PREFIX}{key.upper()}{end}" for key in known for end in ("", FROM_FILE))
    return frozenset({CONFIG, *ATTEMPT_VARIABLES, *EVENT_VARIABLES, *settings})


def _unknown(known: Collection[str]) -> Iterator[Unknown]:
    variables = _variables(known)
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in variables:
            yield Unknown(name, closest(name, variables))


def find_setting(name: str, default: str) -> str:
    """Look for one setting alone, for whoever has no time to read the others."""
    found, _ = read_settings_file({name}, {name}, [])
    found.update(_from_environment({name}, []))
    return found[name].text if name in found else default
