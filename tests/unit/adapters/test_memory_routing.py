from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.memory.routing import DeclaredTopology, topic
from cronhare.domain.topology import Binding, Exchange, Queue, Topology


def _routes(*parts: Exchange | Binding) -> DeclaredTopology:
    bindings = [part for part in parts if isinstance(part, Binding)]
    queues = dict.fromkeys(each.target for each in bindings if not each.to_exchange)
    declared = DeclaredTopology()
    declared.add(
        Topology(
            exchanges=tuple(part for part in parts if isinstance(part, Exchange)),
            queues=tuple(Queue(name=name) for name in queues),
            bindings=tuple(bindings),
        )
    )
    return declared


def _reached(declared: DeclaredTopology, exchange: str, key: str) -> list[str]:
    return [queue.spec.name for queue in declared.route(exchange, key)]


def _matches(pattern: list[str], words: list[str]) -> bool:
    """The rule word by word, as the AMQP model states it."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "axb", False),
        ("*.b", "a.b", True),
        ("*.b", "a.a.b", False),
        ("*", "", False),
        ("*.b", ".b", True),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("#.*", "", False),
        ("a*", "ab", False),
        ("a+", "aa", False),
        ("", "", True),
        ("", "a", False),
        ("a", "a\n", False),
    ],
)
def test_a_star_is_one_word_and_a_hash_any_number(pattern: str, key: str, expected: bool) -> None:
    assert topic(pattern)(key) is expected


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=6),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=6),
)
def test_a_compiled_pattern_agrees_with_the_rule(pattern: list[str], words: list[str]) -> None:
    assert topic(".".join(pattern))(".".join(words)) is _matches(pattern, words)


def test_a_direct_exchange_compares_the_whole_key() -> None:
    declared = _routes(
        Exchange(name="x", kind="direct"),
        Binding(source="x", target="q", key="a.b"),
        Binding(source="x", target="other", key="*.b"),
    )

    assert _reached(declared, "x", "a.b") == ["q"]


def test_a_fanout_exchange_asks_for_no_key() -> None:
    declared = _routes(
        Exchange(name="x", kind="fanout"),
        Binding(source="x", target="one", key="a"),
        Binding(source="x", target="two", key=""),
    )

    assert _reached(declared, "x", "whatever") == ["one", "two"]


def test_the_default_exchange_takes_the_key_for_a_queues_name() -> None:
    declared = DeclaredTopology()
    declared.add(_topology(Queue(name="reports")))

    assert _reached(declared, "", "reports") == ["reports"]


def test_an_unknown_exchange_leads_nowhere() -> None:
    assert DeclaredTopology().route("nobody", "key") == []


def test_a_queue_gets_one_copy_by_however_many_roads_it_is_reached() -> None:
    declared = _routes(
        Exchange(name="x", kind="topic"),
        Exchange(name="y", kind="fanout"),
        Binding(source="x", target="q", key="#"),
        Binding(source="x", target="q", key="a"),
        Binding(source="x", target="y", key="a", to_exchange=True),
        Binding(source="y", target="q", key=""),
    )

    assert _reached(declared, "x", "a") == ["q"]


def test_exchanges_that_lead_in_a_circle_are_walked_once() -> None:
    declared = _routes(
        Exchange(name="x", kind="fanout"),
        Exchange(name="y", kind="fanout"),
        Binding(source="x", target="y", key="", to_exchange=True),
        Binding(source="y", target="x", key="", to_exchange=True),
        Binding(source="y", target="q", key=""),
    )

    assert _reached(declared, "x", "a") == ["q"]


def test_an_alternate_exchange_takes_only_what_no_binding_took() -> None:
    declared = _routes(
        Exchange(name="x", kind="direct", alternate="strays"),
        Exchange(name="strays", kind="fanout"),
        Binding(source="x", target="q", key="known"),
        Binding(source="strays", target="parked", key=""),
    )

    assert _reached(declared, "x", "known") == ["q"]
    assert _reached(declared, "x", "unknown") == ["parked"]


def test_a_new_road_counts_for_keys_that_were_routed_before() -> None:
    declared = _routes(Exchange(name="x", kind="direct"))
    before = declared.route("x", "a")

    road = Binding(source="x", target="q", key="a")
    declared.add(_topology(Queue(name="q"), bindings=(road,)))

    assert (before, _reached(declared, "x", "a")) == ([], ["q"])


def _topology(
    *queues: Queue, exchanges: tuple[Exchange, ...] = (), bindings: tuple[Binding, ...] = ()
) -> Topology:
    return Topology(exchanges=exchanges, queues=queues, bindings=bindings)


def test_declaring_again_with_other_arguments_names_the_difference_and_adds_nothing() -> None:
    topology = DeclaredTopology()
    topology.add(_topology(Queue(name="retry", ttl=timedelta(seconds=30))))
    other = Queue(name="retry", ttl=timedelta(minutes=1), dead_letter_exchange="dlx")

    with pytest.raises(ValueError, match=r"queue retry .* ttl 0:00:30, not 0:01:00, dead_letter"):
        topology.add(_topology(Queue(name="new"), other))

    assert list(topology.queues) == ["retry"]


def test_an_exchange_cannot_change_its_type_either() -> None:
    topology = DeclaredTopology()
    topology.add(_topology(exchanges=(Exchange(name="x", kind="direct"),)))

    with pytest.raises(ValueError, match="exchange x is declared with kind direct, not topic"):
        topology.add(_topology(exchanges=(Exchange(name="x", kind="topic"),)))


@pytest.mark.parametrize(
    "binding",
    [
        Binding(source="nobody", target="q", key=""),
        Binding(source="x", target="nobody", key=""),
        Binding(source="x", target="q", key="", to_exchange=True),
    ],
)
def test_a_binding_needs_both_its_ends(binding: Binding) -> None:
    exchange = Exchange(name="x", kind="fanout")

    with pytest.raises(ValueError, match="which is not declared"):
        DeclaredTopology().add(
            _topology(Queue(name="q"), exchanges=(exchange,), bindings=(binding,))
        )


def test_an_exchange_of_a_type_that_needs_a_plugin_is_refused() -> None:
    exchange = Exchange(name="x", kind="x-delayed-message")

    with pytest.raises(ValueError, match="exchange x: type x-delayed-message"):
        DeclaredTopology().add(_topology(exchanges=(exchange,)))
