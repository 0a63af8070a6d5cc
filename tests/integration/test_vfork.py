"""What a warden starts by vfork, and what it leaves to a fork."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhare.adapters.process.warden import Frame, Vfork
from tests.integration.starting import compiled

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _only_proc_is_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/proc` stands for a file system of a network; whatever the others are, they are disks."""
    remote = Path("/proc/self/").stat().st_dev
    monkeypatch.setattr(os, "major", lambda device: int(device != remote))


@pytest.fixture
def fds() -> Iterator[list[int]]:
    """What become the descriptors of a task: all four the same pipe."""
    reader, writer = os.pipe()
    yield [writer] * 4
    os.close(writer)
    os.close(reader)


def task(*argv: str, cwd: str | None = None, ids: list[int] | None = None) -> Frame:
    return {"argv": argv, "env": {"PATH": os.defpath, "A": "1"}, "cwd": cwd, "ids": ids}


def learnt(*argv: str) -> Vfork:
    vfork = Vfork(str(compiled()))
    vfork.learn(task(*argv))
    return vfork


@pytest.mark.parametrize("name", ["true", "/bin/true"])
def test_a_program_of_this_host_is_started_by_vfork_once_it_has_run(
    name: str, fds: list[int]
) -> None:
    pid = learnt(name).start(task(name), fds)

    assert Vfork(str(compiled())).start(task(name), fds) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    "other",
    [
        task("sh", cwd="/"),
        task("sh", ids=[1, 1]),
        task("sh", "a\0b"),
        task("sh", "\ud800"),
        task("env"),
    ],
)
def test_what_goes_elsewhere_or_cannot_be_started_or_is_not_known_takes_a_fork(
    other: Frame, fds: list[int]
) -> None:
    assert learnt("sh").start(other, fds) == 0


@pytest.mark.parametrize(
    ("first_line", "vforks"),
    [("#!/bin/sh", True), ("#! /usr/bin/env sh", True), ("#!/proc/self/exe", False), ("", False)],
)
def test_a_script_is_started_as_its_interpreter_allows(
    tmp_path: Path, fds: list[int], first_line: str, *, vforks: bool
) -> None:
    script = tmp_path / "script"
    script.write_text(f"{first_line}\n")
    script.chmod(0o755)

    pid = learnt(str(script)).start(task(str(script)), fds)

    assert bool(pid) is vforks
    if vforks:
        os.waitpid(pid, 0)


@pytest.mark.parametrize("becomes", [None, "no program"])
def test_a_program_that_is_gone_or_none_any_more_takes_a_fork_which_says_so(
    tmp_path: Path, fds: list[int], becomes: str | None
) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    vfork = learnt(str(program))
    program.unlink() if becomes is None else program.write_text(becomes)

    assert vfork.start(task(str(program)), fds) == 0


def test_what_is_not_on_a_disk_of_this_host_takes_a_fork(fds: list[int]) -> None:
    assert learnt("/proc/self/exe").start(task("/proc/self/exe"), fds) == 0


def test_without_the_library_all_take_a_fork(fds: list[int]) -> None:
    vfork = Vfork("/nowhere")
    vfork.learn(task("true"))

    assert vfork.start(task("true"), fds) == 0
