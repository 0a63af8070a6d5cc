"""Other interpreters of this machine, for what the one that runs the tests cannot have."""

import hashlib
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def find_python(*versions: str) -> Path | None:
    """Find an interpreter of one of these versions, on the path or pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for number in versions:
        found = shutil.which(f"python{number}")
        on_path = [Path(found)] if found else []
        for python in (*on_path, *sorted(pyenv.glob(f"{number}.*/bin/python"))):
            can = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True)  # noqa: PLW1510
            if can.returncode == 0:
                return python
    return None


def environment_of(lock: Path, *versions: str) -> Path:
    """Give an interpreter of another version with what a lock names; made once, in `build/`.

    `cronhare` itself is there as it is in this checkout. Where the machine has no such interpreter
    the test is skipped, in CI as well.
    """
    python = find_python(*versions)
    if python is None:
        pytest.skip(f"no Python {' or '.join(versions)} on this machine")
    digest = hashlib.blake2b(lock.read_bytes() + bytes(python), digest_size=4).hexdigest()
    folder = ROOT / "build" / f"{lock.stem}-{digest}"
    made, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        options = ("--quiet", "--require-hashes", "--only-binary", ":all:", "--requirement")
        command: list[str | Path] = [made, "-m", "pip", "install", *options, lock]
        subprocess.run(command, check=True)
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "cronhare.pth").write_text(f"{ROOT / '.namespace'}\n")
        told = packages / "cronhare.dist-info" / "METADATA"
        told.parent.mkdir()
        told.write_text(f"Metadata-Version: 2.1\nName: cronhare\nVersion: {version('cronhare')}\n")
        stamp.touch()
    return made
