"""Crontabs' lines, run as the commands that they become."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from cronhare.adapters.crontab.carrier import import_crontabs
from cronhare.adapters.crontab.reader import Crontab, CrontabKind, Host

pytestmark = pytest.mark.integration

#: What a crontab may say above its lines.
SETTINGS = 'SHELL=/bin/bash\nGREETING="  hello $USER"\n'


def run_imported(line: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Import one line and run the command that it became, with text to read that is not its own."""
    text = f"{SETTINGS}@daily {line}\n"
    crontab = Crontab(name="mine", text=text, kind=CrontabKind.USER)
    imported = import_crontabs([crontab], host=Host(run_as="root"))
    (task,) = tomllib.loads(imported.text)["tasks"].values()
    return subprocess.run(
        task["command"],
        input="{}",
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": os.defpath, **task.get("env", {})},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (r"printf '\%s,' a \"b c\"", 'a,"b,c",'),
        ("sleep 0 & wait; cat%hello", "hello\n"),
        ('[[ $BASH_VERSION ]] && echo "$SHELL$GREETING"', "/bin/bash  hello $USER\n"),
        ("echo it\\'s '  kept  '", "it's   kept  \n"),
        ("cat%one%two", "one\ntwo\n"),
        (r"""cat%it's "quoted" `id` $(id) $HOME \n 100\% ;&|<>""", None),
        ("cat%", ""),
        ("read a; read b; echo $b-$a%1%2%", "2-1\n"),
        ("cat # a comment%-n", "-n\n"),
        ("{ cat; } | tr a-z A-Z%up", "UP\n"),
    ],
)
def test_an_imported_command_does_what_it_did_under_cron(
    tmp_path: Path, line: str, printed: str | None
) -> None:
    if printed is None:  # what the command reads, and no shell may touch
        printed = line.removeprefix("cat%").replace(r"\%", "%") + "\n"

    ran = run_imported(line, cwd=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, printed, "")


def test_the_exit_status_of_a_command_with_input_is_its_own(tmp_path: Path) -> None:
    assert run_imported("cat >/dev/null; exit 3%hello", cwd=tmp_path).returncode == 3
