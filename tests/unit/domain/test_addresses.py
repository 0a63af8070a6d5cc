import pytest

from cronhare.domain.addresses import WebAddress

SECRET = "c4nary"


def test_an_address_is_taken_apart() -> None:
    web = WebAddress.parse(f"HTTPS://Hooks.Example.ORG.:8443/a/{SECRET}?b=%20")

    assert (web.scheme, web.host, web.port) == ("https", "hooks.example.org", 8443)
    assert web.target == f"/a/{SECRET}?b=%20"


def test_its_text_shows_scheme_host_and_port_and_nothing_else() -> None:
    web = WebAddress.parse(f"https://[2001:DB8::1]/{SECRET}")

    assert str(web) == "https://[2001:db8::1]"
    assert SECRET not in repr(web)


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://a", "/"), ("http://a?b=c", "/?b=c"), ("http://a:/x", "/x"), ("http://a:80", "/")],
)
def test_what_is_not_named_is_usual(url: str, target: str) -> None:
    assert (WebAddress.parse(url).port, WebAddress.parse(url).target) == (80, target)


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.0x1", "1.2.3.4.5", "256.1.1.1"],
)
def test_an_address_in_another_form_than_its_own_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="write an IPv4 address in full"):
        WebAddress.parse(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"ftp://{SECRET}", "must be like"),
        (SECRET, "must be like"),
        (f"http://{SECRET}@good.example/", "user or password"),
        (f"http://good.example:{SECRET}@127.0.0.1/", "user or password"),
        (f"http://good.example#{SECRET}@evil.example/", "has a #"),
        (f"http://a/{SECRET}\r\nHost: b", "control character"),
        (f"http://a/{SECRET} HTTP/1.1", "blank"),
        (f"http://\uff11{SECRET}/", "not ASCII"),
        (f"http://exämple/{SECRET}", "not ASCII"),
        (f"http:///{SECRET}", "no name or address"),
        (f"http://a%2e/{SECRET}", "no name or address"),
        (f"http://{'a.' * 127}a/{SECRET}", "no name or address"),
        (f"http://a:{SECRET}/", "has a port"),
        (f"http://a:0/{SECRET}", "has a port"),
        (f"http://a:+80/{SECRET}", "has a port"),
        (f"http://[::1/{SECRET}", "no name or address"),
        (f"http://[fe80::1%25eth0]/{SECRET}", "with a zone"),
        (f"http://[{SECRET}]/", "no IPv6 address"),
        (f"http://a/{SECRET}{'x' * 2_048}", "longer than 2,048"),
    ],
)
def test_what_could_mislead_is_refused_and_never_quoted(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        WebAddress.parse(url)

    assert why in str(caught.value)
    assert SECRET not in str(caught.value)
