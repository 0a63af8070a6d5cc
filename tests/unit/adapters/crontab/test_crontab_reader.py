"""Reading the lines of a crontab as Debian's cron does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.adapters.crontab.reader import (
    Crontab,
    CrontabKind,
    Entry,
    Setting,
    Unreadable,
    as_argv,
    guess_kind,
    read_crontab,
    split_command,
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
        ('MAILTO=""', "MAILTO", ""),
        ("MAILTO=", "MAILTO", ""),
        ("GREETING=hello there  ", "GREETING", "hello there"),
        ("GREETING='  hello '", "GREETING", "  hello "),
        ("""GREETING = "it's" """, "GREETING", "it's"),
        ('"MY NAME" = x', "MY NAME", "x"),
        ("'NAME'=x", "NAME", "x"),
        ("OPTS=a=b", "OPTS", "a=b"),
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


def test_fields_may_be_parted_by_tabs_and_many_blanks_and_the_command_stays_as_it_is() -> None:
    entry = read_entry("\t5  4\t* *   sun   echo  'a   b'  \n")

    assert (entry.when, entry.user, entry.command) == ("5 4 * * sun", None, "echo  'a   b'  ")


def test_a_system_crontab_has_a_user_after_the_fields() -> None:
    entry = read_entry("17 *\t* * *\troot\tcd / && run\n", CrontabKind.SYSTEM)

    assert (entry.when, entry.user, entry.command) == ("17 * * * *", "root", "cd / && run")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("* * * *", CrontabKind.USER, "a time and a command are expected"),
        ("* * * * *", CrontabKind.USER, "a time and a command are expected"),
        ("* * * * *   ", CrontabKind.USER, "a time and a command are expected"),
        ("@daily", CrontabKind.USER, "a time and a command are expected"),
        ("* * * * * root", CrontabKind.SYSTEM, "a time, a user and a command are expected"),
        ("@daily root", CrontabKind.SYSTEM, "a time, a user and a command are expected"),
        ("-*/5 * * * * run", CrontabKind.USER, "minute '-*/5': a leading '-'"),
        ("* * * * * -root run", CrontabKind.SYSTEM, "user '-root': a leading '-'"),
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


def test_the_comment_directly_above_belongs_to_an_entry() -> None:
    first, second, third = read_crontab(
        "# about the file\n\n# first\n#  lines\n@daily a\n@daily b\n# bytes \udce4\n@daily c\n",
        CrontabKind.USER,
    )

    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert isinstance(third, Entry)
    assert first.comment == ("first", "lines")
    assert second.comment == ()
    assert third.comment == ("bytes \ufffd",)


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


@pytest.mark.parametrize("name", ["/etc/crontab", "/etc/cron.d/php", "backup/etc/cron.d/php"])
def test_the_system_places_hold_system_crontabs(name: str) -> None:
    assert guess_kind(name, USER_TEXT) is CrontabKind.SYSTEM


@pytest.mark.parametrize("name", ["/var/spool/cron/crontabs/ada", "/var/spool/cron/ada"])
def test_the_spool_holds_user_crontabs(name: str) -> None:
    assert guess_kind(name, SYSTEM_TEXT) is CrontabKind.USER


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (USER_TEXT, CrontabKind.USER),
        (SYSTEM_TEXT, CrontabKind.SYSTEM),
        ("@daily root run\n17 * * * * www-data run\n", CrontabKind.SYSTEM),
        ("@daily root run\n17 * * * * backup --now\n", CrontabKind.USER),
        ("PATH=/bin\n", CrontabKind.USER),
        ("", CrontabKind.USER),
    ],
)
def test_elsewhere_the_text_decides(text: str, kind: CrontabKind) -> None:
    assert guess_kind("crontab", text) is kind


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [
        ("/var/spool/cron/crontabs/ada", CrontabKind.USER, "ada"),
        ("/home/ada/crontab", CrontabKind.USER, None),
        ("/etc/crontab", CrontabKind.SYSTEM, None),
    ],
)
def test_a_file_of_the_spool_is_named_after_its_owner(
    name: str, kind: CrontabKind, owner: str | None
) -> None:
    assert Crontab(name=name, text="", kind=kind).owner == owner


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("echo plain", "echo plain", None),
        (r"date +\%d", "date +%d", None),
        (r"date +\%Y-\%m >> log", "date +%Y-%m >> log", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%one%", "cat", "one\n"),
        ("cat%%", "cat", "\n"),
        ("cat%", "cat", ""),
        (r"cat%100\% sure", "cat", "100% sure\n"),
        (r"cat%a\b\\c", "cat", "a\\b\\\\c\n"),
        (r"echo a\nb", r"echo a\nb", None),
        (r"echo a\\b", r"echo a\b", None),
        (r"echo \\%x", "echo \\", "x\n"),
        ("echo \\", "echo \\", None),
    ],
)
def test_the_first_percent_ends_the_command(text: str, command: str, stdin: str | None) -> None:
    assert split_command(text) == (command, stdin)


def read_as_debian_does(text: str) -> tuple[str, str | None]:
    """Follow do_command.c of Debian's cron 3.0pl1 character by character."""
    command, escaped = "", False
    for index, char in enumerate(text):
        if escaped and char in "%\\":
            command = command[:-1] + char
            escaped = False
        elif not escaped and char == "%":
            return command, feed_as_debian_does(text[index + 1 :])
        else:
            command += char
            escaped = not escaped and char == "\\"
    return command, None


def feed_as_debian_does(text: str) -> str:
    fed, escaped = "", False
    for char in text:
        if escaped and char != "%":
            fed += "\\"
        written = "\n" if char == "%" and not escaped else char
        escaped = written == "\\"
        if not escaped:
            fed += written
    fed += "\\" if escaped else ""
    return fed + "\n" if fed and not fed.endswith("\n") else fed


@settings(max_examples=300)
@given(st.text(alphabet="ab \\%", max_size=12))
def test_percent_and_backslash_mean_what_they_mean_to_debians_cron(text: str) -> None:
    assert split_command(text) == read_as_debian_does(text)


def test_input_is_piped_to_the_commands_own_shell() -> None:
    argv = as_argv("wc -l # count", "it's\n\n$HOME\n", "/usr/bin/fish")

    assert argv == (
        "/bin/sh",
        "-c",
        r"""printf '%s\n' 'it'"'"'s' '' '$HOME' | exec /usr/bin/fish -c 'wc -l # count'""",
    )
