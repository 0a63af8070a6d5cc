"""Crontabs: how their lines are read, and what they become in a jobs file."""

import re
import tomllib
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.adapters.crontab.carrier import import_crontabs
from cronhare.adapters.crontab.reader import (
    Crontab,
    CrontabKind,
    Entry,
    Finding,
    Host,
    Imported,
    Setting,
    Unreadable,
    Verdict,
    guess_kind,
    parse_usable,
    read_crontab,
)

# /etc/crontab of Debian 12, from its package cron-daemon-common 3.0pl1-162.
DEBIAN = r"""# /etc/crontab: system-wide crontab
# Unlike any other crontab you don't have to run the `crontab'
# command to install the new version when you edit this file
# and files in /etc/cron.d. These files also have username fields,
# that none of the other crontabs do.

SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin

# Example of job definition:
# .---------------- minute (0 - 59)
# |  .------------- hour (0 - 23)
# |  |  .---------- day of month (1 - 31)
# |  |  |  .------- month (1 - 12) OR jan,feb,mar,apr ...
# |  |  |  |  .---- day of week (0 - 6) (Sunday=0 or 7) OR sun,mon,tue,wed,thu,fri,sat
# |  |  |  |  |
# *  *  *  *  * user-name command to be executed
17 *	* * *	root	cd / && run-parts --report /etc/cron.hourly
25 6	* * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6	* * 7	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6	1 * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
#
"""  # noqa: E501 - quoted as it is

HOST = Host(run_as="root", timezone="Europe/Berlin", home="/root")


#: cron tries a command once.
ONCE = {"attempts": 1}


def carry(*crontabs: Crontab, host: Host = HOST) -> Imported:
    return import_crontabs(crontabs, host=host)


def user_table(text: str, name: str = "mine") -> Crontab:
    return Crontab(name=name, text=text, kind=CrontabKind.USER)


def system_table(text: str, name: str = "/etc/cron.d/shop") -> Crontab:
    return Crontab(name=name, text=text, kind=CrontabKind.SYSTEM)


def read(imported: Imported) -> dict[str, Any]:
    return tomllib.loads(imported.text)


def finding_of(crontab: Crontab) -> Finding:
    *_, finding = carry(crontab).findings
    return finding


def test_debians_own_crontab_is_carried_whole() -> None:
    imported = carry(system_table(DEBIAN, "/etc/crontab"))

    jobs = read(imported)
    path = "/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin"
    assert {finding.verdict for finding in imported.findings} == {Verdict.CARRIED}
    assert list(jobs["tasks"]) == [
        "cron.hourly",
        "cron.daily",
        "cron.weekly",
        "cron.monthly",
    ]
    assert all("description" not in schedule for schedule in jobs["schedules"].values())
    assert jobs["tasks"]["cron.daily"] == {
        "type": "worker",
        "command": [
            "/bin/sh",
            "-c",
            "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
        ],
        "timeout": "24h",
        "cwd": "/root",
        "env": {"SHELL": "/bin/sh", "PATH": path},
    }
    assert jobs["schedules"]["cron.weekly"] == {
        "task": "cron.weekly",
        "schedule": "47 6 * * 7",
        "timezone": "Europe/Berlin",
        "overlap": "skip",
        "retry": ONCE,
    }


def test_an_entry_that_is_commented_out_is_told_and_describes_no_other() -> None:
    imported = carry(
        user_table("# 5 4 * * * old\n# tidy up\n@daily tidy\n#@daily off\n@daily on\n")
    )

    old, _, off, _ = imported.findings
    assert [(one.line, one.verdict) for one in (old, off)] == [
        (1, Verdict.LEFT_OUT),
        (4, Verdict.LEFT_OUT),
    ]
    said = {name: one.get("description") for name, one in read(imported)["schedules"].items()}
    assert said == {"tidy": "tidy up", "on": None}


def test_a_job_whose_failure_nobody_would_be_told_of_is_noted() -> None:
    def is_noted(text: str) -> bool:
        return any("without MAILTO" in note for note in carry(user_table(text)).notes)

    assert is_noted("@daily run\nMAILTO=ada\n@daily other\n")
    assert not is_noted("MAILTO=\n@daily run\n")
    assert not is_noted("MAILTO=ada\n@daily run\n")


@pytest.mark.parametrize(
    "when", ["22-2 * * * *", "@every", "* * * * mon-", "0 0 30 2 *", "0~59 * * * *", "H * * * *"]
)
def test_a_time_that_cannot_be_used_is_left_out_in_the_parsers_words(when: str) -> None:
    finding = finding_of(user_table(f"{when} run\n"))

    with pytest.raises(ValueError) as refusal:
        parse_usable(when)
    assert finding.verdict is Verdict.LEFT_OUT
    assert finding.reasons == (str(refusal.value),)


def test_names_go_on_over_several_files() -> None:
    jobs = read(
        carry(user_table("@daily a\n"), system_table("@daily root a\n"), user_table("@daily a\n"))
    )

    assert list(jobs["tasks"]) == ["a", "shop-a", "a-2"]


def test_the_zone_of_the_crontab_is_that_of_its_schedules_and_said_to_differ_from_debian() -> None:
    imported = carry(user_table("CRON_TZ=Asia/Tokyo\n@daily run\n"))

    assert read(imported)["schedules"]["run"]["timezone"] == "Asia/Tokyo"
    assert "env" not in read(imported)["tasks"]["run"]
    assert imported.findings[0].verdict is Verdict.CHANGED
    assert "Debian's cron ignores CRON_TZ" in imported.findings[0].reasons[0]


def test_tz_reaches_the_command_but_not_the_schedule() -> None:
    imported = carry(user_table("TZ=Asia/Tokyo\n@daily run\n"))

    assert read(imported)["tasks"]["run"]["env"] == {"TZ": "Asia/Tokyo"}
    assert read(imported)["schedules"]["run"]["timezone"] == "Europe/Berlin"
    assert imported.findings[0].verdict is Verdict.CHANGED


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("@reboot server &", "what the line leaves running is killed"),
        ("* * * * * (sleep 5; date) &  # later", "what the line leaves running is killed"),
        ("* * * * * one & two & wait", None),
        ("0 22 * * 1-5 mail joe%Joe,%%Where?%", "the text after '%' is piped"),
        ("0 0 */2 * 1 run", "either day field matches"),
        ("0 0 1 * 1 run", None),
    ],
)
def test_what_will_not_be_as_under_cron_is_told(line: str, told: str | None) -> None:
    finding = finding_of(user_table(f"{line}\n"))

    assert finding.verdict is (Verdict.CHANGED if told else Verdict.CARRIED)
    assert (told or "") in "".join(finding.reasons)


def test_whom_mail_went_to_is_told_of_failures() -> None:
    imported = carry(
        user_table(
            'MAILTO="ada, ops@example.org"\n@daily one\nMAILTO=\n@daily two\nMAILTO=root\n'
            "@daily three\nMAILTO=ada ops@example.org\n@daily four\n"
        )
    )

    assert read(imported)["notify"] == {
        "mailto-1": {"email": ["ada", "ops@example.org"]},
        "mailto-2": {"email": ["root"]},
    }
    told = {name: one.get("notify") for name, one in read(imported)["schedules"].items()}
    assert told == {"one": ["mailto-1"], "two": None, "three": ["mailto-2"], "four": ["mailto-1"]}
    mail, _, none, *_ = imported.findings
    assert (mail.verdict, none.verdict) == (Verdict.CHANGED, Verdict.CARRIED)
    assert "CRON_SMTP_URL" in mail.reasons[0]


@pytest.mark.parametrize(
    "value", ["a b@", "ops@example.org\\r\\nBcc:x", "<ada>", ",".join(f"u{n}" for n in range(17))]
)
def test_what_is_no_address_of_mail_is_left_out_and_nobody_else_is_told(value: str) -> None:
    imported = carry(user_table(f"MAILTO=ada\nMAILTO={value}\n@daily run\n"))

    assert imported.findings[1].verdict is Verdict.LEFT_OUT
    assert imported.findings[1].reasons
    assert "notify" not in read(imported)


@pytest.mark.parametrize(
    ("crontab", "user"),
    [
        (system_table("@daily www-data run\n"), "www-data"),
        (user_table("@daily run\n", "/var/spool/cron/crontabs/ada"), "ada"),
        (system_table("@daily root run\n"), None),
    ],
)
def test_roots_worker_runs_it_as_whom_cron_ran_it_as(crontab: Crontab, user: str | None) -> None:
    homes = {"ada": "/home/ada", "www-data": "/var/www"}
    imported = carry(crontab, host=attrs.evolve(HOST, homes=homes))

    (task,) = read(imported)["tasks"].values()
    (schedule,) = read(imported)["schedules"].values()
    (finding,) = imported.findings
    assert task.get("user") == user
    assert task.get("cwd") == (homes | {None: "/root"})[user]
    assert "status" not in schedule
    assert finding.verdict is Verdict.CARRIED


ADA = Host(run_as="ada", timezone="Europe/Berlin", home="/home/ada")


@pytest.mark.parametrize(
    ("crontab", "host", "reason"),
    [
        (system_table("@daily www-data run\n"), ADA, "cron runs it as www-data"),
        (user_table("@daily run\n", "/var/spool/cron/crontabs/bea"), ADA, "cron runs it as bea"),
        (system_table("@daily a:b run\n"), HOST, "no name that a task may have"),
        (system_table("@daily root run\n", "/etc/cron.d/shop.dpkg-old"), HOST, "for its name"),
    ],
)
def test_what_cron_would_not_run_as_our_user_is_carried_disabled(
    crontab: Crontab, host: Host, reason: str
) -> None:
    imported = carry(crontab, host=host)

    (schedule,) = read(imported)["schedules"].values()
    (finding,) = imported.findings
    assert schedule["status"] is False
    assert finding.verdict is Verdict.CHANGED
    assert reason in finding.reasons[0]
    assert f"# {finding.reasons[0]}\n" in imported.text


LINES = st.one_of(
    st.text(max_size=20),
    st.builds(
        "{} {}{}".format,
        st.sampled_from(["* * * * *", "@daily", "@reboot", "5 4 31 2 *", "PATH =", "# 1 2 3 4 5"]),
        st.sampled_from(["", "root ", "ada "]),
        st.text(max_size=20),
    ),
)


@settings(max_examples=150)
@given(
    lines=st.lists(LINES, max_size=6), kind=st.sampled_from(CrontabKind), name=st.text(max_size=9)
)
def test_whatever_a_file_holds_the_result_reads_back_and_no_line_is_forgotten(
    lines: list[str], kind: CrontabKind, name: str
) -> None:
    text = "\n".join(lines)

    imported = carry(Crontab(name=name, text=text, kind=kind))

    jobs = tomllib.loads(imported.text.encode().decode())
    active = [
        number
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
        if line.strip() and not line.lstrip(" \t").startswith("#")
    ]
    told = [one.line for one in imported.findings if "it is commented out" not in one.reasons]
    assert told == active
    assert list(jobs.get("tasks", {})) == [f.job for f in imported.findings if f.job is not None]
    assert all(re.fullmatch(r"[a-z0-9._-]{1,63}", task) for task in jobs.get("tasks", {}))


def read_entry(text: str, kind: CrontabKind = CrontabKind.USER) -> Entry:
    (line,) = read_crontab(text, kind)
    assert isinstance(line, Entry)
    return line


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("PATH=/usr/bin:/bin", "PATH", "/usr/bin:/bin"),
        ("  MAILTO = ada@example.org  ", "MAILTO", "ada@example.org"),
        ("MAILTO=", "MAILTO", ""),
        ("GREETING='  hello '", "GREETING", "  hello "),
        ("""GREETING = "it's" """, "GREETING", "it's"),
        ('"MY NAME" = x', "MY NAME", "x"),
        ("HOME=$PWD", "HOME", "$PWD"),
    ],
)
def test_a_name_with_an_equals_sign_is_a_setting(text: str, name: str, value: str) -> None:
    (line,) = read_crontab(f"{text}\n", CrontabKind.USER)

    assert line == Setting(line=1, text=text.lstrip(), name=name, value=value)


@pytest.mark.parametrize("text", ['NAME="x" y', 'NAME="x', "=x", '"A=B"=c', "A B=c"])
def test_what_cron_would_not_take_for_a_setting_is_unreadable(text: str) -> None:
    (line,) = read_crontab(f"{text}\n", CrontabKind.USER)

    assert isinstance(line, Unreadable)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("* * * * *", CrontabKind.USER, "a time and a command are expected"),
        ("@daily root", CrontabKind.SYSTEM, "a time, a user and a command are expected"),
        ("-*/5 * * * * run", CrontabKind.USER, "minute '-*/5': a leading '-'"),
        ("* * * * * * run", CrontabKind.USER, "sixth time field"),
        ("* * * * * echo \0", CrontabKind.USER, "NUL"),
        ("* * * * * echo \udce4", CrontabKind.USER, "not UTF-8"),
    ],
)
def test_a_line_that_is_nothing_here_says_why(text: str, kind: CrontabKind, reason: str) -> None:
    (line,) = read_crontab(f"\n{text}\n", kind)

    assert isinstance(line, Unreadable)
    assert line.line == 2
    assert reason in line.reason


@pytest.mark.parametrize(
    ("text", "oddity"),
    [
        ("@daily run\r\n", "carriage return"),
        ("@daily run", "no newline"),
        ("@daily grep 'a\\\\.b' file\n", "one backslash"),
    ],
)
def test_what_a_reader_should_know_of_a_line_is_told(text: str, oddity: str) -> None:
    entry = read_entry(text)

    (told,) = entry.oddities
    assert oddity in told
    assert "\r" not in entry.command


USER_TEXT = "MAILTO=ada\n# m h  dom mon dow   command\n0 5 * * * tar -czf home.tgz /home\n"
SYSTEM_TEXT = "0 5 * * * root tar -czf home.tgz /home\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("/etc/crontab", USER_TEXT, CrontabKind.SYSTEM),
        ("/var/spool/cron/crontabs/ada", SYSTEM_TEXT, CrontabKind.USER),
        ("crontab", USER_TEXT, CrontabKind.USER),
        ("crontab", SYSTEM_TEXT, CrontabKind.SYSTEM),
        ("crontab", "@daily root run\n17 * * * * backup --now\n", CrontabKind.USER),
        ("crontab", "", CrontabKind.USER),
    ],
)
def test_its_place_or_else_its_text_says_whether_it_has_a_user_column(
    name: str, text: str, kind: CrontabKind
) -> None:
    assert guess_kind(name, text) is kind
