"""Where settings come from: the environment, files that it names, and a settings file.

A variable goes before the settings file, which goes before the default. Nothing is read twice, and
what cannot be read is a fault with its place.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from cronhare.domain.environment import ATTEMPT_VARIABLES, EVENT_VARIABLES
from cronhare.domain.reading import MOST_FAULTS
from cronhare.domain.texts.words import first_faults

from .setting_text import SettingText, add_from_file, closest
from .settings_file import CONFIG, read_settings_file

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
