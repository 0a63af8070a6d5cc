import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from cronhare.adapters.extras import EXTRAS, ExtraMissing, require
from cronhare.adapters.sql.dialects import open_engine
from cronhare.entrypoints.container import check_broker

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def module_of(library: str) -> str:
    return library.replace("-", "." if library.startswith("opentelemetry") else "_")


def test_each_extra_is_known_with_the_modules_of_its_libraries() -> None:
    declared = {
        extra: {module_of(re.split(r"[\[<>=~!]", library)[0]) for library in libraries}
        for extra, libraries in PROJECT["optional-dependencies"].items()
    }

    assert declared == {extra: set(modules) for extra, modules in EXTRAS.items()}


@pytest.mark.parametrize(
    ("extra", "module"),
    [(extra, module) for extra, modules in EXTRAS.items() for module in modules],
)
def test_an_extra_is_missing_as_a_whole_and_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, extra: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ExtraMissing) as told:
        require(extra)

    sentence, _, command = str(told.value).partition("; run: ")
    assert sentence == f"it needs the extra {extra}, which is not installed"
    assert shlex.split(command) == [sys.executable, *f"-m pip install cronhare[{extra}]".split()]


def test_a_server_is_not_spoken_to_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pymysql", "psycopg", "pika"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ExtraMissing, match="mysql"):
        open_engine("mysql+pymysql://user:secret@host/database")
    with pytest.raises(ExtraMissing, match="postgresql"):
        open_engine("postgresql+psycopg://user:secret@host/database")
    with pytest.raises(ExtraMissing, match="rabbitmq"):
        check_broker("amqp://user:secret@host/")
