import pytest

from cronhare.domain.addresses.servers import Host, ServerUrl

PORTS = {"amqp": 5672, "amqps": 5671}
EXAMPLE = "amqp://user:password@host:5672/vhost"
SECRET = "c4nary"


def parse(url: str) -> ServerUrl:
    return ServerUrl.parse(url, ports=PORTS, options=("heartbeat", "cafile"), example=EXAMPLE)


def test_a_url_is_taken_apart() -> None:
    url = parse("AMQPS://ant:s%40cret%3A@a,b:99,[::1]:98,a/v%2Fh?cafile=%2Fca.pem&heartbeat=4")

    assert url.scheme == "amqps"
    assert url.hosts == (Host("a", 5671), Host("b", 99), Host("::1", 98))
    assert (url.user, url.password, url.place) == ("ant", "s@cret:", "v/h")
    assert url.options == {"cafile": "/ca.pem", "heartbeat": "4"}


def test_its_text_shows_scheme_hosts_ports_and_place_and_nothing_else() -> None:
    url = parse(f"amqp://{SECRET}:{SECRET}@a,[::1]/v%2Fh?cafile={SECRET}")

    assert str(url) == "amqp://a:5672,[::1]:5672/v%2Fh"
    assert SECRET not in repr(url)


def test_what_is_not_named_is_none() -> None:
    url = parse("amqp://a")

    assert (url.user, url.password, url.place, url.options) == (None, None, None, {})
    assert parse("amqp://a/").place == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"{SECRET}://host", "must be like"),
        (SECRET, "must be like"),
        (f"amqp://u:{SECRET}@{SECRET}@host/", "an @ too many"),
        (f"amqp://host/v#{SECRET}", "has a #"),
        (f"amqp://host/v?password={SECRET}", "known are heartbeat, cafile"),
        (f"amqp://host/v?{SECRET}", "number 1 after the ?"),
        ("amqp://host/v?cafil=x", "did you mean cafile?"),
        ("amqp://host/v?heartbeat=1&heartbeat=2", "heartbeat must be given once"),
        ("amqp://host/v?heartbeat", "heartbeat must be given once, with a value"),
        (f"amqp://u:{SECRET}%@host/", "a % that begins no escape"),
        (f"amqp://u:{SECRET}%00@host/", "a control character"),
        (f"amqp://u:{SECRET}%ff@host/", "no UTF-8"),
        (f"amqp://u:{SECRET} @host/", "a blank or a control character"),
        (f"amqp://u:{SECRET}", "a port that is no number"),
        (f"amqp://host:0{SECRET}", "a port that is no number"),
        ("amqp://host:65536", "no number from 1 to 65535"),
        ("amqp://host:" + "9" * 5_000, "no number from 1 to 65535"),
        (f"amqp://[::1{SECRET}", "the host is no"),
        ("amqp://", "no host"),
        ("amqp://a,,b", "no host"),
        ("amqp://a, b", "a blank"),
        ("amqp://" + ",".join(f"h{n}" for n in range(17)), "more than 16 hosts"),
        (f"amqp://{SECRET}..x", "the host is no name or address"),
        (f"amqp://{SECRET}{'a' * 64}.x", "the host is no name or address"),
    ],
)
def test_what_cannot_be_used_is_refused_without_a_word_of_it(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(url)

    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ValueError) as caught:
        parse(f"amqp://u:{SECRET}%@a,b:x,-/?cafil=1&heartbeat")

    for why in ("begins no escape", "host 2 has a port", "host 3 is no", "cafile?", "given once"):
        assert why in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["a.b", "a.b.", f"{'a' * 63}.b", "10.0.0.1", "a_b-c.d"])
def test_a_name_that_a_resolver_can_be_asked_for_is_taken(name: str) -> None:
    assert parse(f"amqp://{name}").hosts == (Host(name.removesuffix("."), 5672),)


@pytest.mark.parametrize(
    ("name", "is_local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("db", False),
    ],
)
def test_this_machine_is_told_from_others(name: str, is_local: bool) -> None:
    assert Host(name, 1).is_local is is_local
