"""The reference of log actions is as the code says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_of_log_actions_is_made_from_the_code() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "log_actions.py"))

    text = made["page"]()

    assert text.count("\n| `") > 80
    assert made["PAGE"].read_text(encoding="utf-8") == text, "run: python -m scripts.log_actions"
