"""An app costs the web process that enqueues, and each task that is started, next to nothing."""

import subprocess
import sys

import pytest

#: Prints the seconds of CPU, then what was imported.
MEASURE = """
import sys, time
before, began = set(sys.modules), time.process_time()
{statement}
spent = time.process_time() - began
print(spent, *{{name.partition(".")[0] for name in sys.modules.keys() - before}})
"""


def measure(statement: str) -> tuple[float, set[str]]:
    code = [sys.executable, "-c", MEASURE.format(statement=statement)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env={})
    spent, *names = done.stdout.split()
    return float(spent), set(names)


@pytest.mark.parametrize("statement", ["import cronhare", "from cronhare import App, enqueue_many"])
def test_the_import_brings_only_the_standard_library_in_less_than_30_ms(statement: str) -> None:
    _, names = measure(statement)  # it may compile what it imports

    assert names - sys.stdlib_module_names == {"cronhare"}
    # Others may be at work on the machine: once is enough.
    assert any(measure(statement)[0] < 0.03 for _ in range(20))


def test_what_pytest_loads_of_us_for_all_tests_brings_none_of_the_system() -> None:
    _, names = measure("import cronhare.testing.plugin")

    assert not names & {"sqlalchemy", "alembic", "msgspec", "attrs", "dependency_injector"}
