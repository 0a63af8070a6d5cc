import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


#: What a C compiler makes of vfork.c.
LIBRARY = "cronhare/adapters/process/vfork.so"


@pytest.mark.parametrize(
    ("compiler", "made", "machines"), [("cc", {LIBRARY}, "linux_"), ("false", set(), "any")]
)
def test_the_wheel_holds_all_of_src_under_one_name(
    tmp_path: Path, compiler: str, made: set[str], machines: str
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(
        build, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"CC": compiler}
    )

    (wheel,) = tmp_path.glob(f"*-py3-none-{machines}*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    ours = {f"cronhare/{path.relative_to(ROOT / 'src')}" for path in files}
    sources = {name for name in ours if "__pycache__" not in name and name != LIBRARY}
    assert packed == sources | made
