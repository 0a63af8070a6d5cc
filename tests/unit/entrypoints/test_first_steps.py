"""`cronhare init` and `cronhare service install`."""

import re
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.entrypoints.cli.commands.service import Process, init, install
from cronhare.entrypoints.cli.errors import Refusal
from cronhare.entrypoints.settings.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy" / "systemd"
EACH = [[Process.UP], [Process.SCHEDULER, Process.WORKER, Process.WEB]]


def uncommented(text: str) -> str:
    """Switch on all that the file has as comments; what says why stays one."""
    return re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)


def test_the_first_jobs_file_can_be_used_and_so_can_all_that_it_has_as_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.toml"

    init(jobs)

    first = read_jobs(jobs, policy=RetryPolicy())
    assert [draft.name for draft in first.drafts] == ["hello"]
    assert f"cronhare up --jobs {jobs}" in capsys.readouterr().out
    jobs.write_text(uncommented(jobs.read_text()))
    everything = read_jobs(jobs, policy=RetryPolicy())
    assert [draft.name for draft in everything.drafts] == ["hello", "nightly", "often", "party"]
    assert everything.tasks[0].user == "nobody"


def test_a_jobs_file_that_is_there_stays_and_what_to_run_next_can_be_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "my jobs; $(true).toml"

    init(jobs)
    first = jobs.read_text()
    with pytest.raises(Refusal, match="is there already") as refused:
        init(jobs)

    assert jobs.read_text() == first
    assert f"  cronhare up --jobs '{jobs}'\n" in capsys.readouterr().out
    assert f"cronhare check '{jobs}'" in refused.value.advice


def install_in(root: Path, *processes: Process, force: bool = False) -> None:
    install([*processes], root=root, program=Path("/usr/bin/env"), user="cron", force=force)


@pytest.mark.parametrize("processes", EACH)
def test_units_are_those_of_the_repository_with_this_hosts_user_and_program(
    processes: list[Process], tmp_path: Path
) -> None:
    install_in(tmp_path, *processes)

    units = sorted((tmp_path / "etc/systemd/system").iterdir())
    assert len(units) == len(processes)
    for unit in units:
        ours = (
            (DEPLOY / unit.name).read_text().replace("/opt/cronhare/bin/cronhare", "/usr/bin/env")
        )
        ours = ours.replace("User=cronhare\nGroup=cronhare", "User=cron\nGroup=cron")
        assert unit.read_text() == ours
    users = (tmp_path / "etc/sysusers.d/cronhare.conf").read_text()
    assert re.search(r"^u cron -", users, flags=re.MULTILINE)


@pytest.mark.parametrize("process", [Process.UP, Process.WORKER])
def test_like_cron_tasks_of_root_are_confined_by_nothing(process: Process, tmp_path: Path) -> None:
    install([process], root=tmp_path, program=Path("/usr/bin/env"), like_cron=True)

    [unit] = (tmp_path / "etc/systemd/system").iterdir()
    text = unit.read_text()
    said = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
    assert (said["User"], said["UMask"], said["KillMode"]) == ("root", "0022", "mixed")
    confines = ("Protect", "Private", "Restrict", "Capability", "NoNew", "Lock", "System", "Tasks")
    assert [name for name in said if name.startswith(confines)] == []
    assert said["StateDirectory"] == "cronhare"  # of the ledger
    assert not (tmp_path / "etc/sysusers.d").exists()  # root is there


def test_up_finds_its_ledger_and_its_jobs_where_its_unit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_in(tmp_path, Process.UP)
    unit = (tmp_path / "etc/systemd/system/cronhare.service").read_text()
    settings = tmp_path / "etc/cronhare/cronhare.toml"

    assert "Environment=CRON_CONFIG=/etc/cronhare/cronhare.toml" in unit
    monkeypatch.setenv("CRON_CONFIG", str(settings))
    read = Settings.read()
    assert str(read.ledger) == "sqlite:////var/lib/cronhare/cronhare.sqlite3"
    assert read.jobs == Path("/etc/cronhare/jobs.toml")


def test_what_a_person_edits_stays_and_a_unit_that_differs_is_written_by_force_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_in(tmp_path, Process.UP)
    settings = tmp_path / "etc/cronhare/cronhare.toml"
    unit = tmp_path / "etc/systemd/system/cronhare.service"
    settings.write_text("mine")
    unit.write_text("mine")

    with pytest.raises(Refusal, match="differ"):
        install_in(tmp_path, Process.UP)
    assert unit.read_text() == "mine"
    install_in(tmp_path, Process.UP, force=True)

    assert settings.read_text() == "mine"
    assert "ExecStart=/usr/bin/env up" in unit.read_text()
    assert "systemctl daemon-reload && systemctl enable --now cronhare" in capsys.readouterr().out


def test_a_dry_run_prints_all_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(None, root=tmp_path, program=Path("/home/me/cronhare"), dry_run=True)

    shown = capsys.readouterr().out
    assert "ExecStart=/home/me/cronhare up" in shown
    assert "StateDirectory=cronhare" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"program": Path("/home/me/cronhare")}, "in a home"),
        ({"program": Path("/opt/../home/me/cronhare")}, "in a home"),
        ({"program": Path("/opt/a b")}, "cannot be named"),
        ({"user": "a b"}, "cannot name a user"),
        ({"processes": [Process.UP, Process.WORKER]}, "install it alone"),
    ],
)
def test_what_no_service_could_use_is_refused(
    options: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=why):
        install(**({"processes": None, "root": tmp_path} | options))  # type: ignore[arg-type]

    assert list(tmp_path.iterdir()) == []
