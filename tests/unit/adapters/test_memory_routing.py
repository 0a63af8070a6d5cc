from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.memory.routing import topic


def _matches(pattern: list[str], words: list[str]) -> bool:
    """The rule word by word, as the AMQP model states it."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=6),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=6),
)
def test_a_compiled_pattern_agrees_with_the_rule(pattern: list[str], words: list[str]) -> None:
    assert topic(".".join(pattern))(".".join(words)) is _matches(pattern, words)
