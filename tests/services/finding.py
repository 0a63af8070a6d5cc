"""Where the integration tests find their servers.

First at an address in the environment; then in Docker, through testcontainers; then as a private
server from the machine's own binaries. Never an instance that was running before the tests.
"""

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

#: Debian keeps servers here, which a plain user has not in PATH.
_MORE_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/lib/rabbitmq/bin")

#: Below those that the kernel gives to clients: whoever knocks at a server that is being restarted
#: may be given that server's own port.
_PORTS = range(20_000, 32_000)


def address(variable: str) -> str | None:
    return os.environ.get(variable) or None


@cache
def has_docker() -> bool:
    """Whether a Docker engine answers; the client alone is not enough."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        asked = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def binary(name: str) -> Path | None:
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_FOLDERS))
    found = shutil.which(name, path=folders)
    return None if found is None else Path(found)


def missing(server: str, hint: str) -> NoReturn:
    """Do without a server: at home the test is skipped, and in CI it fails."""
    sentence = f"no {server} to test with: {hint}"
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(sentence)
    pytest.fail(sentence)


def free_port() -> int:
    """Find a port that nobody uses now, and no client will be given while its server is away."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(
    condition: Callable[[], bool], *, seconds: float, what: str, every: float = 0.02
) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(every)


def end(process: subprocess.Popen[bytes], *, seconds: float = 20.0) -> None:
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)
