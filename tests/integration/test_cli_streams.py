"""Commands whose standard streams are closed, full, or read by nobody: no traceback, ever."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.shell import PROGRAM, Said, clean_environment

pytestmark = pytest.mark.integration

MANY = "next '* * * * *' --count 10000"


def sh(script: str, folder: Path) -> Said:
    """Run a line of shell, in which `$cronhare` is the program."""
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=clean_environment() | {"TZ": "UTC", "cronhare": str(PROGRAM)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("command", ["--version", "next '* * * * *' --count 900"])
@pytest.mark.parametrize(
    ("stdout", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_output_that_goes_nowhere_is_told(
    tmp_path: Path, command: str, stdout: str, why: str
) -> None:
    said = sh(f"$cronhare {command} {stdout}", tmp_path)

    assert said.status == 2
    assert said.err.startswith(f"cronhare: standard output: {why}")
    assert said.err.count("\n") == 1


def test_whoever_reads_no_further_is_told_nothing(tmp_path: Path) -> None:
    said = sh(f"{{ $cronhare {MANY}; echo $? >&2; }} | head -n 1", tmp_path)

    assert said.err == "141\n"
    assert said.out.startswith("UTC")


@pytest.mark.parametrize("streams", ["2>&-", ">/dev/full 2>/dev/full"])
def test_without_standard_error_the_status_still_tells(tmp_path: Path, streams: str) -> None:
    said = sh(f"$cronhare check nowhere.toml {streams}", tmp_path)

    assert said == Said(2, "", "")


def test_a_file_that_is_opened_does_not_become_standard_output(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_text("0 5 * * * true\n")

    said = sh("$cronhare import crontab crontab -o jobs.toml <&- >&- 2>&-", tmp_path)

    assert said.status == 0
    assert (tmp_path / "jobs.toml").read_text().startswith("# Imported from")
    assert "carried over" not in (tmp_path / "jobs.toml").read_text()


def test_a_terminal_that_knows_no_unicode_is_told_in_ascii(tmp_path: Path) -> None:
    said = sh("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $cronhare run 日本", tmp_path)

    assert said.status == 2
    assert "Traceback" not in said.err
    said.err.encode("ascii")


def test_bytes_that_are_no_text_are_refused_by_their_place(tmp_path: Path) -> None:
    done = subprocess.run(
        [os.fsencode(PROGRAM), b"executions", b"list", b"--schedule", b"\xff\x1b[2J"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == rb"cronhare: argument 4 is not UTF-8 text: '\udcff\x1b[2J'" + b"\n"
