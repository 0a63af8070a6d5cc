"""The parts that the container names by their places."""

import ast
import inspect

import pytest

from cronhare.entrypoints import container, parts


def named_for_types() -> set[str]:
    """Name what the container's module imports for the types alone."""
    tree = ast.parse(inspect.getsource(container))
    found = (node for node in tree.body if isinstance(node, ast.If))
    imports = (each for node in found for each in node.body if isinstance(each, ast.ImportFrom))
    return {alias.name for each in imports for alias in each.names}


def test_each_part_is_known_to_the_types_and_to_the_list_of_places() -> None:
    assert named_for_types() == set(parts.LATE | parts.OPTIONAL)


@pytest.mark.parametrize("name", parts.LATE | parts.OPTIONAL)
def test_each_part_is_where_the_list_says(name: str) -> None:
    assert (parts.LATE | parts.OPTIONAL)[name].found().__name__ == name
