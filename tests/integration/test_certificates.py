"""Certificates of our own that cannot be used: told at the start, and nobody is asked for them."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.shell import Shell
from tests.services.certificates import Certified, certified
from tests.services.finding import binary

pytestmark = pytest.mark.integration

JOBS = '[tasks.report]\nid = 1\ncommand = ["true"]\n'

DATABASE = "mysql://u:c4nary@127.0.0.1:1/cron?ssl_cert={certificate}&ssl_key={key}"
BROKER = "amqps://u:c4nary@127.0.0.1:1/?certfile={certificate}&keyfile={key}"
LINKS = [("CRON_DATABASE_URL", DATABASE), ("CRON_BROKER_URL", BROKER)]


@pytest.fixture
def papers(tmp_path: Path) -> Certified:
    papers = certified(tmp_path / "papers", "DNS:ledger.test")
    key = str(papers.key)
    command = [str(binary("openssl")), "ec", "-aes256", "-passout", "pass:x", "-in", key]
    subprocess.run([*command, "-out", key], check=True, capture_output=True, timeout=60)
    return papers


@pytest.mark.parametrize(("name", "url"), LINKS)
@pytest.mark.parametrize("command", ["worker", "doctor"])
def test_a_key_with_a_passphrase_is_refused_at_the_start(
    tmp_path: Path, papers: Certified, command: str, name: str, url: str
) -> None:
    there = url.format(certificate=papers.certificate, key=papers.key)
    (tmp_path / "jobs.toml").write_text(JOBS)
    settings = {"CRON_BROKER_URL": "amqp://127.0.0.1:1/", "CRON_JOBS": "jobs.toml", name: there}

    said = Shell(tmp_path)(command, **settings)

    assert said.status == 2
    told = " ".join(f"{said.out} {said.err}".split())
    assert f"{name}: " in told
    assert "the key has a passphrase, and nobody is there to type it" in told
    assert "c4nary" not in told
    assert "PEM pass phrase" not in told


@pytest.mark.parametrize(("name", "option"), [(LINKS[0][0], "ssl_ca"), (LINKS[1][0], "cafile")])
def test_a_ca_that_cannot_be_read_is_a_wrong_setting(
    tmp_path: Path, name: str, option: str
) -> None:
    scheme = "mysql" if "DATABASE" in name else "amqps"
    (tmp_path / "jobs.toml").write_text(JOBS)
    settings = {"CRON_BROKER_URL": "amqp://127.0.0.1:1/", "CRON_JOBS": "jobs.toml"}
    settings[name] = f"{scheme}://u:p@127.0.0.1:1/cron?{option}=/nowhere/ca.pem"

    said = Shell(tmp_path)("worker", **settings)

    assert said.status == 2
    assert f"{name}: {option} (/nowhere/ca.pem) cannot be read as PEM: No such file" in said.err
