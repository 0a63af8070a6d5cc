from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFileInvalid, read_jobs
from cronhare.domain.addresses import WebAddress
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.http_call import HttpCall
from cronhare.domain.schedules.task import Task

URL = 'url = "https://shop.example/hook?key=SECRET"'

Faults = Callable[[str], list[str]]


def headers(letter: str, many: int) -> str:
    return ", ".join(f'{letter}{n} = "V"' for n in range(many))


def read(folder: Path, content: str) -> tuple[Task, ...]:
    path = folder / "jobs.toml"
    path.write_text(f"[tasks.t]\n{content}\n")
    return read_jobs(path, policy=RetryPolicy()).tasks


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    def faults(content: str) -> list[str]:
        with pytest.raises(JobsFileInvalid) as refused:
            read(tmp_path, content)
        return [str(fault).removeprefix("tasks.t: ") for fault in refused.value.faults]

    return faults


def test_a_task_may_be_a_request(tmp_path: Path) -> None:
    [task] = read(
        tmp_path,
        f"""{URL}
method = "PUT"
headers = {{ Accept = "text/plain" }}
headers_env = {{ Authorization = "SHOP_TOKEN" }}
success = ["2xx", 304]
timeout = "20s"
""",
    )

    assert task.command == ()
    assert task.http == HttpCall(
        address=WebAddress.parse("https://shop.example/hook?key=SECRET"),
        method="PUT",
        headers={"Accept": "text/plain"},
        headers_env={"Authorization": "SHOP_TOKEN"},
        success=frozenset({*range(200, 300), 304}),
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('type = "report"', ["command: is missing; give a command, a url, python, or remind"]),
        ('command = ["true"]\nmethod = "GET"', ["method: is for a url; this task has none"]),
        (f'{URL}\ncommand = ["true"]', ["command: is for a command; this task has a url"]),
        (f'{URL}\nmethod = "CONNECT"', ['method: "CONNECT" is not one of']),
        (
            f'{URL}\nheaders = {{ Host = "x", "a b" = "x" }}',
            ["'Host' frames the message", "'a b' is no header's name"],
        ),
        (f'{URL}\nheaders = {{ X = "a\\r\\nHost: b" }}', ["headers.X: has a line end"]),
        (f'{URL}\nheaders = {{ cron-fence = "1" }}', ["cron-fence is said by cronhare itself"]),
        (f'{URL}\nheaders = {{ {"n" * 129} = "1" }}', ["is no header's name"]),
        (f'{URL}\nheaders = {{ X = "{"v" * 8_193}" }}', ["headers.X: is longer than 8,192"]),
        (
            f"{URL}\nheaders = {{ {headers('A', 20)} }}\nheaders_env = {{ {headers('B', 37)} }}",
            ["headers: 57 with those of headers_env: 56 are allowed"],
        ),
        (f'{URL}\nheaders_env = {{ X = "a-b" }}', ["headers_env.X: 'a-b' cannot name"]),
        (
            f'{URL}\nheaders = {{ X = "1" }}\nheaders_env = {{ x = "X" }}',
            ["'x' is given twice"],
        ),
        (f"{URL}\nsuccess = [99, true]", ["99 is no status", "True is no status"]),
        (f"{URL}\nsuccess = []", ["success: a list such as"]),
        (f'{URL}\nsuccess = "2xx"', ["success: a list such as"]),
        ('url = "file:///etc/passwd"', ["url: must be like"]),
        ('url = "https://user:SECRET@shop.example/"', ["url: "]),
    ],
)
def test_what_cannot_be_a_request_is_refused(content: str, told: list[str], faults: Faults) -> None:
    said = faults(content)

    assert len(said) == len(told)
    assert all(part in fault for part, fault in zip(told, said, strict=True)), said
    assert "SECRET" not in " ".join(said)
