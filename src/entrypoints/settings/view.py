"""The settings of this process as people look at them: each value, and where it came from."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import attrs

from cronhare.domain.addresses.servers import BrokerServer
from cronhare.domain.topology import ServedQueues

from .settings import MEMORY, Settings


@attrs.frozen(kw_only=True)
class SettingView:
    """A setting. *source* is `environment`, `default`, or a file's path.

    *value* has the setting's own type, in the unit that its name says. Addresses are without
    passwords; another secret is `***` where it is set, and None where it is not.
    """

    name: str
    value: str | int | float | bool | tuple[str, ...] | None
    source: str


@attrs.frozen(kw_only=True)
class SettingsView:
    """All settings, the settings *file* that was read, and what means nothing."""

    file: str | None
    settings: tuple[SettingView, ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Show settings."""
        sources = settings.sources
        return cls(
            file=None if sources.file is None else str(sources.file),
            settings=tuple(_each(settings)),
            unknown=tuple(map(str, sources.unknown)),
        )


def _each(settings: Settings) -> Iterator[SettingView]:
    for name, (field, declared) in Settings.declared().items():
        found = settings.sources.found.get(name)
        value = getattr(settings, field)
        yield SettingView(
            name=name,
            value=_secret(name, settings) if declared.secret else _plain(value),
            source="default" if found is None else found.source,
        )


def _secret(name: str, settings: Settings) -> str | None:
    if name == "database_url":
        return str(settings.ledger)
    if name == "broker_url":
        url = settings.broker_url
        return MEMORY if url == MEMORY else str(BrokerServer.parse(url))
    return "***" if name in settings.sources.found else None


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a form gives
    match value:
        case timedelta():
            return value.total_seconds()
        case Path():
            return str(value)
        case ServedQueues():
            return value.texts
    return value
