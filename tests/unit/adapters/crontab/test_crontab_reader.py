"""Reading the lines of a crontab as Debian's cron does."""

import pytest

from cronhare.adapters.crontab.reader import (
    CrontabKind,
    Entry,
    Setting,
    Unreadable,
    guess_kind,
    read_crontab,
)


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
    ("line", "kind", "read"),
    [
        (
            "\t5  4\t* *   sun   echo  'a   b'  \n",
            CrontabKind.USER,
            ("5 4 * * sun", None, "echo  'a   b'  "),
        ),
        (
            "17 *\t* * *\troot\tcd / && run\n",
            CrontabKind.SYSTEM,
            ("17 * * * *", "root", "cd / && run"),
        ),
    ],
)
def test_fields_are_parted_by_blanks_and_the_command_stays_as_it_is(
    line: str, kind: CrontabKind, read: tuple[str, str | None, str]
) -> None:
    entry = read_entry(line, kind)

    assert (entry.when, entry.user, entry.command) == read


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
