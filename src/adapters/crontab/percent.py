r"""What `%` means in a command: the first ends it, the rest is its standard input (crontab(5)).

>>> split_command("mail -s 10pm joe%Joe,%%Where are your kids?")
('mail -s 10pm joe', 'Joe,\n\nWhere are your kids?\n')
>>> split_command(r"date +\%d")
('date +%d', None)
"""

import re
import shlex

_IN_COMMAND = re.compile(r"\\(.?)|(%)", re.DOTALL)
_IN_INPUT = re.compile(r"\\%|%")


def split_command(text: str) -> tuple[str, str | None]:
    r"""Part what the shell is given from what the command reads; None if nothing is said of that.

    As in Debian's do_command.c: in the command `\%` gives `%` and `\\` gives one backslash; in
    the input `\%` gives `%` and every other backslash stays; input ends with a newline.
    """
    command: list[str] = []
    end = 0
    for found in _IN_COMMAND.finditer(text):
        command.append(text[end : found.start()])
        end = found.end()
        if found[2]:
            return "".join(command), _input(text[end:])
        command.append(found[1] if found[1] in {"%", "\\"} else found[0])
    return "".join(command) + text[end:], None


def _input(text: str) -> str:
    lines = _IN_INPUT.sub(lambda found: "\n" if found[0] == "%" else "%", text)
    return lines if not lines or lines.endswith("\n") else lines + "\n"


def as_argv(command: str, stdin: str | None, shell: str) -> tuple[str, ...]:
    r"""Give the argument list that runs *command* in *shell* with *stdin* to read.

    The command stays one quoted word: put between `{` and `}` it would break by ending in `&`
    or in a comment, and a pipe is not written alike in every shell.

    >>> as_argv("wc -l", None, "/bin/bash")
    ('/bin/bash', '-c', 'wc -l')
    >>> as_argv("wc -l", "two\nlines\n", "/bin/bash")[2]
    "printf '%s\\n' two lines | exec /bin/bash -c 'wc -l'"
    """
    if stdin is None:
        return (shell, "-c", command)
    run = f"exec {shlex.quote(shell)} -c {shlex.quote(command)}"
    if not stdin:
        return ("/bin/sh", "-c", f"{run} </dev/null")
    lines = " ".join(shlex.quote(line) for line in stdin.removesuffix("\n").split("\n"))
    return ("/bin/sh", "-c", f"printf '%s\\n' {lines} | {run}")
