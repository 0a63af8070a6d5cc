"""What the tools of a host say of deploy/ and of the operators' page."""

import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema, upgrade
from cronhare.adapters.sql.schedules import SqlScheduleStore
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, draft
from tests.services.mariadb import accepts, run
from tests.services.rabbitmq import LARGEST_AT_BROKER

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/operators.md"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("name", ["cronhare-scheduler.service", "cronhare-worker@.service"])
def test_systemd_understands_every_line_of_a_unit(name: str, tmp_path: Path) -> None:
    text = (ROOT / "deploy/systemd" / name).read_text()
    unit = tmp_path / name
    unit.write_text(re.sub("^ExecStart=.*", "ExecStart=/bin/true", text, flags=re.MULTILINE))

    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    said = subprocess.run(verify, capture_output=True, text=True, check=False)

    complaints = [line for line in said.stderr.splitlines() if name in line]
    assert (said.returncode, complaints) == (0, [])


def test_secrets_are_made_once_for_us_and_for_the_servers(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "deploy/make-secrets", tmp_path)
    made = tmp_path / "secrets"

    subprocess.run([script], check=True, capture_output=True)
    first = {path.name: path.read_text() for path in made.iterdir()}
    subprocess.run([script], check=True, capture_output=True)
    second = {path.name: path.read_text() for path in made.iterdir()}

    assert second == first
    assert f":{first['database-password']}@mariadb:" in first["migrate-database-url"]
    for role in ("scheduler", "worker"):
        [password] = re.findall(
            f"cronhare_{role}@'%' IDENTIFIED BY '(\\w{{48}})'", first["roles.sql"]
        )
        assert f"//cronhare_{role}:{password}@mariadb:" in first[f"{role}-database-url"]
    [password] = re.findall("default_pass = ([0-9a-f]{48})\n", first["rabbitmq.conf"])
    assert f":{password}@rabbitmq:" in first["broker-url"]
    assert f"\nmax_message_size = {LARGEST_AT_BROKER}\n" in first["rabbitmq.conf"]
    assert made.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o644}
    assert [path.name for path in tmp_path.iterdir() if path.name != "make-secrets"] == ["secrets"]


def test_the_roles_of_compose_may_work_and_change_no_table(
    tmp_path: Path, empty_mysql: URL
) -> None:
    script = shutil.copy(ROOT / "deploy/make-secrets", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    roles = (tmp_path / "secrets/roles.sql").read_text().strip().rstrip(";")
    upgrade(open_engine(empty_mysql.render_as_string(hide_password=False)), NOON)
    run(empty_mysql, *roles.replace("cronhare.*", f"{empty_mysql.database}.*").split(";\n"))
    told = (tmp_path / "secrets/worker-database-url").read_text()
    [password] = re.findall(r"cronhare_worker:(\w+)@", told)
    url = empty_mysql.set(username="cronhare_worker", password=password)
    assert accepts(url)
    engine = open_engine(url.render_as_string(hide_password=False))

    SqlScheduleStore(engine, FrozenClock(NOON)).save([draft()], source=None, now=NOON)
    check_schema(engine)
    with pytest.raises(pymysql.MySQLError, match="command denied"):
        run(url, "DROP TABLE Scheduler")
    engine.dispose()
    run(empty_mysql, "DROP USER cronhare_scheduler@'%', cronhare_worker@'%'")


def test_the_statements_of_the_operators_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    statements = [each for block in blocks for each in block.split(";") if each.strip()]
    engine = open_engine(f"sqlite:///{tmp_path}/ledger.sqlite3")
    upgrade(engine)
    engine.dispose()

    assert len(statements) >= 6
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as ledger:
        for statement in statements:
            ledger.execute(statement)
    ledger.close()
