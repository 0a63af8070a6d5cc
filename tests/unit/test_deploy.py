"""The ways to run it, read with care: nothing here starts a container, a unit or a pod."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.process.attempt import GRACE
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.entrypoints.cli.command_tree import TREE
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.vitals import HEALTH, READINESS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"cronhare:{PROJECT['version']}"

#: What a worker needs after its last task has ended: two writes, and two connections to close.
MARGIN = timedelta(seconds=10)

#: Files that a process is given, and what its settings would find in them.
LEDGER = "mysql+pymysql://cronhare:secret@mariadb/cronhare?tls=off"
SECRETS = {
    "database-url": LEDGER,
    **{f"{role}-database-url": LEDGER for role in ("migrate", "scheduler", "worker")},
    "broker-url": "amqp://cronhare:secret@rabbitmq/",
}


@attrs.frozen(kw_only=True)
class Process:
    """What one of the files says about one process. *stop* is how long its end is waited for."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    replicas: int | None = None
    stop: timedelta | None = None


@cache
def compose() -> dict[str, Any]:
    whole: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return whole


@cache
def manifests() -> list[Any]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [each for file in files for each in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> list[Any]:
    return [manifest for manifest in manifests() if manifest["kind"] == kind]


def unit(name: str) -> dict[str, list[str]]:
    """Read a unit. Not by configparser: a key may come twice in a section, and both count."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def compose_services() -> dict[str, Any]:
    services: dict[str, Any] = compose()["services"]
    return {name: each for name, each in services.items() if each["image"] == IMAGE}


def compose_processes() -> Iterator[Process]:
    for name, service in compose_services().items():
        yield Process(
            name=f"compose {name}",
            command=service["command"],
            environment=service["environment"],
            replicas=service.get("deploy", {}).get("replicas"),
            stop=_seconds(service.get("stop_grace_period")),
        )


def kubernetes_processes() -> Iterator[Process]:
    configs = {each["metadata"]["name"]: each["data"] for each in of_kind("ConfigMap")}
    for manifest in [*of_kind("Job"), *of_kind("Deployment")]:
        pod = manifest["spec"]["template"]["spec"]
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            own = {each["name"]: each["value"] for each in container.get("env", ())}
            shared = [configs[each["configMapRef"]["name"]] for each in container["envFrom"]]
            yield Process(
                name=f"kubernetes {container['name']}",
                command=container["args"],
                environment={key: value for each in [*shared, own] for key, value in each.items()},
                replicas=manifest["spec"].get("replicas"),
                stop=_seconds(pod.get("terminationGracePeriodSeconds")),
            )


def systemd_processes() -> Iterator[Process]:
    lines = (DEPLOY / "systemd" / "environment").read_text().splitlines()
    shared = [line for line in lines if line and not line.startswith("#")]
    for path in (DEPLOY / "systemd").glob("cronhare-*.service"):  # `up` has a settings file
        found = unit(path.name)
        pairs = (line.split("=", 1) for line in [*found["Environment"], *shared])
        yield Process(
            name=f"systemd {path.name}",
            command=found["ExecStart"][0].split()[1:],
            environment={key: value.replace("%i", "1") for key, value in pairs},
            stop=_seconds(found["TimeoutStopSec"][0]),
        )


def _seconds(written: str | int | None) -> timedelta | None:
    return None if written is None else timedelta(seconds=int(str(written).removesuffix("s")))


PROCESSES = [*compose_processes(), *kubernetes_processes(), *systemd_processes()]
WORKERS = [process for process in PROCESSES if process.command[0] == "worker"]

each_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)


def settings_that_exist() -> set[str]:
    return {f"CRON_{name.upper()}" for name in Settings.declared()}


@each_process
def test_a_process_is_given_what_exists_and_passwords_in_files(process: Process) -> None:
    variables = {name for name in process.environment if name.startswith("CRON_")}

    assert process.command[0] in TREE
    assert {name.removesuffix("_FILE") for name in variables} <= settings_that_exist()
    assert {"CRON_DATABASE_URL_FILE", "CRON_BROKER_URL_FILE"} <= variables
    assert "://" not in " ".join(process.environment.values())


@each_process
def test_a_process_can_use_what_it_is_given(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)
    for name, text in SECRETS.items():
        (tmp_path / name).write_text(text)
    for name, value in process.environment.items():
        file = tmp_path / Path(value).name
        monkeypatch.setenv(name, str(file) if name.endswith("_FILE") else value)

    settings = Settings.read()

    assert settings.database_url == LEDGER
    assert settings.broker_url == SECRETS["broker-url"]


@pytest.mark.parametrize("worker", WORKERS, ids=lambda worker: worker.name)
def test_a_worker_is_waited_for_as_long_as_its_tasks_may_take(worker: Process) -> None:
    grace = timedelta(seconds=float(worker.environment["CRON_SHUTDOWN_GRACE_SECONDS"]))

    assert worker.stop == grace + timedelta(seconds=GRACE) + MARGIN


def test_containers_may_do_as_little_as_possible() -> None:
    pods = [each["spec"]["template"]["spec"] for each in [*of_kind("Job"), *of_kind("Deployment")]]
    containers = [
        each for pod in pods for each in (*pod.get("initContainers", ()), *pod["containers"])
    ]

    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}
        assert service["deploy"]["resources"]["limits"]["pids"] > 0
        assert service["image"] == IMAGE or service["user"] != "root"
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"].keys() == {"requests", "limits"}


def test_each_process_is_probed_where_it_answers() -> None:
    [config] = [each["data"] for each in of_kind("ConfigMap") if "jobs.toml" not in each["data"]]
    for deployment in of_kind("Deployment"):
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        of_page = ["web"] if deployment["metadata"]["name"] == "cronhare-web" else []
        port, *others = container["ports"]
        assert [each["name"] for each in others] == of_page
        assert config["CRON_PROBE_ADDRESS"] == f"0.0.0.0:{port['containerPort']}"
        for probe, path in (("livenessProbe", HEALTH), ("readinessProbe", READINESS)):
            assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
        patience = container["livenessProbe"]["failureThreshold"] * 10
        assert patience >= 60, "a busy node, or one that was suspended"
    for name in ("scheduler", "worker"):
        service = compose_services()[name]
        _, port = service["environment"]["CRON_PROBE_ADDRESS"].split(":")
        assert f"127.0.0.1:{port}{HEALTH}" in service["healthcheck"]["test"][-1]


def test_every_image_is_this_version() -> None:
    deployed = [DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", *DEPLOY.glob("kubernetes/*")]
    named = re.findall(r"\bcronhare(?:-migrate-|:)(\d+\.\d+\.\d+)", "".join(map(_read, deployed)))

    assert set(named) == {PROJECT["version"]}


def test_all_ways_run_the_same_jobs_file() -> None:
    [in_kubernetes] = [
        each["data"]["jobs.toml"]
        for each in of_kind("ConfigMap")
        if "jobs" in str(each["metadata"])
    ]

    jobs = read_jobs(DEPLOY / "jobs.toml", policy=RetryPolicy())

    assert [task.name for task in jobs.tasks] == ["say-the-time"]
    assert tomllib.loads(in_kubernetes) == tomllib.loads(_read(DEPLOY / "jobs.toml"))


def dockerfile() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", _read(DEPLOY / "Dockerfile"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], " ".join(line.split()[1:])) for line in lines if line.strip()]


def test_the_image_takes_nothing_from_the_network_that_is_not_pinned() -> None:
    instructions = dockerfile()
    runs = [step for word, rest in instructions if word == "RUN" for step in rest.split("&&")]

    assert "ADD" not in [word for word, _ in instructions]
    assert not [step for step in runs if re.search(r"\b(curl|wget|git)\b", step)]
    installs = [step for step in runs if re.search(r"\bpip\b.*\binstall\b", step)]
    assert len(installs) == 3
    for step in installs:
        assert "--no-index" in step or "--require-hashes --only-binary :all:" in step


def pins(lock: str) -> dict[str, str]:
    text = _read(ROOT / "requirements" / lock)
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "lock", ["runtime.lock", "with-page.lock", "all-extras.lock", "build.lock"]
)
def test_the_image_is_built_and_run_with_what_the_tests_are_run_with(lock: str) -> None:
    entries = re.split(r"\n(?=\S)", _read(ROOT / "requirements" / lock).strip())

    assert pins(lock).items() <= pins("dev.lock").items()
    assert all("--hash=sha256:" in entry for entry in entries)


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~!]", requirement)[0] for requirement in requirements}


def test_the_runtime_lock_has_nothing_of_an_extra_and_the_image_speaks_to_every_server() -> None:
    extras = set().union(*map(named, PROJECT["optional-dependencies"].values()))
    installed = re.findall(r"--requirement requirements/(\S+)", _read(DEPLOY / "Dockerfile"))

    assert named(PROJECT["dependencies"]) <= pins("runtime.lock").keys()
    assert not extras & pins("runtime.lock").keys()
    assert installed == ["build.lock", "all-extras.lock"]
    assert pins("runtime.lock").items() <= pins("all-extras.lock").items()
    assert extras <= pins("all-extras.lock").keys()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
