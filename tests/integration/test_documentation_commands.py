"""Every command of the tutorial and the how-tos is run, page by page, as a reader would.

What stands behind the language of a block says what it is:

    ```toml NAME        a file of that name (any language but sh)
    ```sh               commands that end with status 0, `sh status 4`: the last with another
    ```sh background    one that runs on, `sh restart` again: it ends with the page
    ```sh elsewhere: …  commands that no test machine can run, and why
"""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import dedent

import attrs
import pytest

from tests.integration.shell import PROGRAM, Said, Shell, clean_environment

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]
BLOCK = re.compile(r"(?ms)^( *)```(\w+)(?: ([^\n]+))?\n(.*?)^ *```$")
WAIT = 120.0


@attrs.frozen
class Block:
    """A block of a page: its language, what is said of it, and its text."""

    language: str
    info: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for _, language, info, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        yield Block(language, info, dedent(text))


def commands(text: str) -> list[str]:
    """Give the commands of a block, those that go over several lines as one."""
    return re.sub(r"\\\n\s*", " ", text).strip().splitlines()


@attrs.define
class Reader:
    """Does what a page says, in a folder of its own."""

    folder: Path
    environment: dict[str, str]
    running: ExitStack | None = None

    def does(self, block: Block) -> None:
        match block.language, block.info.split():
            case "sh", ["background" | "restart" as how]:
                assert (how == "restart") == (self.running is not None), block.text
                self.ends()
                self.running = ExitStack()
                self.running.enter_context(self._started(block.text))
            case "sh", ["elsewhere:", *why]:
                assert why, "why it cannot be run here"
            case "sh", ["status", status]:
                self._call(block.text, int(status))
            case "sh", []:
                self._call(block.text, 0)
            case "sh", _:
                pytest.fail(f"what is {block.info!r}?")
            case _, [name]:
                path = self.folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text)
            case _:
                assert "$ " not in block.text, "a command that nobody runs"

    def ends(self, *error: object) -> None:
        """End what runs on, in good order unless there was an error."""
        if self.running is not None:
            self.running.__exit__(*(error or (None, None, None)))  # type: ignore[arg-type]
            self.running = None

    def _call(self, text: str, status: int) -> None:
        *before, last = commands(text)
        for command in before:
            said = self._said(command)
            assert said.status == 0, (command, said)
        said = self._said(last)
        assert said.status == status, (last, said)
        assert "Traceback" not in said.err

    def _said(self, command: str) -> Said:
        words = shlex.split(command)
        if words[0] == "cronhare":
            return Shell(self.folder)(*words[1:])
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        return Said(ran.returncode, ran.stdout, ran.stderr)

    @contextmanager
    def _started(self, text: str) -> Iterator[None]:
        [command] = commands(text)
        program, *arguments = shlex.split(command)
        assert program == "cronhare"
        log = self.folder / "log"
        with log.open("wb") as err:
            process = subprocess.Popen(
                [PROGRAM, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=err,
                stderr=err,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + WAIT
            while "Running; Ctrl-C ends it" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=WAIT) == 0
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_tells_its_reader_to_do_can_be_done(page: Path, tmp_path: Path) -> None:
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    environment = clean_environment() | {"PATH": path, "TZ": "UTC"}
    reader = Reader(tmp_path, environment)
    try:
        for block in blocks(page):
            reader.does(block)
    except BaseException as error:
        reader.ends(type(error), error, error.__traceback__)
        raise
    reader.ends()
    # A ledger has params and output, and so has a copy of it.
    ledgers = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.rglob("*.sqlite3*")}
    assert not any(ledgers.values()), ledgers


def test_the_pages_have_commands_and_none_hides_in_another_language() -> None:
    found = {page.stem: [*blocks(page)] for page in PAGES}

    assert all(found.values())
    hidden = [
        (stem, each.text)
        for stem, there in found.items()
        for each in there
        if each.language in {"text", "console", "bash", "shell"} and "cronhare " in each.text
    ]
    assert hidden == []
