import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_all_of_src_under_one_name(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)

    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    ours = {f"cronhare/{path.relative_to(ROOT / 'src')}" for path in files}
    assert packed == {name for name in ours if "__pycache__" not in name}
