import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.adapters.crontab.reader import as_argv, split_command


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
