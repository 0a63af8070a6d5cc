import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.crontab.job import clean_name, make_unique, name_command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup --all", "backup"),
        ("/opt/scripts/backup.sh", "backup"),
        ("cd / && run-parts --report /etc/cron.hourly", "cron.hourly"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }", "cron.daily"),
        ("[ -x /usr/lib/php/clean ] && if [ ! -d /run/x ]; then /usr/lib/php/clean; fi", "clean"),
        (
            "if [ -x /c ] && [ $(date +%d) -le 7 ]; then /usr/share/checkarray --all; fi",
            "checkarray",
        ),
        ("nice -n10 ionice -c3 /usr/bin/updatedb", "updatedb"),
        ("flock -n /run/lock/sync.lock sync-mail", "sync-mail"),
        ("sudo -n timeout 5m /usr/bin/rsync -a a b", "rsync"),
        ("/usr/bin/python3 -u /srv/app/tidy.py --old", "tidy"),
        ("bash -lc 'cd /srv && make all'", "make"),
        ("bash", "command"),
        ("echo `which ls` | mail -s hi ada", "echo"),
        ("sleep 30; curl -s https://example.org/ping >/dev/null 2>&1", "curl"),
        ("echo 'unfinished", "command"),
    ],
)
def test_a_command_is_named_after_the_program_that_does_the_work(command: str, name: str) -> None:
    assert name_command(command) == name


@given(st.text())
def test_whatever_a_command_is_its_name_is_allowed(command: str) -> None:
    name = clean_name(name_command(command))

    assert re.fullmatch(r"[a-z0-9._-]{1,63}", name)


def test_the_second_and_third_of_a_name_are_numbered() -> None:
    taken = {"backup-2": 1}

    names = [make_unique("backup", taken) for _ in range(3)]

    assert names == ["backup", "backup-3", "backup-4"]
