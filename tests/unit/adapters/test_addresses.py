"""Where servers are, by which certificates they are known, and whom we may ask over HTTP."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from cronhare.adapters import tls
from cronhare.adapters.addresses import (
    Certificates,
    LedgerFile,
    LedgerServer,
    ServerUrl,
    Tls,
    parse_ledger,
)
from cronhare.adapters.http.allowed_hosts import AllowedHosts, is_public
from cronhare.domain.addresses import Host, WebAddress

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


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"{SECRET}://host", "must be like"),
        (f"amqp://u:{SECRET}@{SECRET}@host/", "an @ too many"),
        (f"amqp://host/v#{SECRET}", "has a #"),
        (f"amqp://host/v?password={SECRET}", "known are heartbeat, cafile"),
        ("amqp://host/v?cafil=x", "did you mean cafile?"),
        ("amqp://host/v?heartbeat", "heartbeat must be given once, with a value"),
        (f"amqp://u:{SECRET}%@host/", "a % that begins no escape"),
        (f"amqp://u:{SECRET}%ff@host/", "no UTF-8"),
        (f"amqp://u:{SECRET} @host/", "a blank or a control character"),
        (f"amqp://host:0{SECRET}", "a port that is no number"),
        ("amqp://host:65536", "no number from 1 to 65535"),
        (f"amqp://[::1{SECRET}", "the host is no"),
        ("amqp://", "no host"),
        (f"amqp://{SECRET}{'a' * 64}.x", "the host is no name or address"),
    ],
)
def test_what_cannot_be_used_is_refused_without_a_word_of_it(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(url)

    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


def server(url: str) -> LedgerServer:
    parsed = parse_ledger(url)
    assert isinstance(parsed, LedgerServer)
    return parsed


def test_a_file_is_named_by_its_path() -> None:
    assert parse_ledger("sqlite:///cron.db") == LedgerFile("cron.db")
    assert parse_ledger("sqlite:////var/lib/cron%20.db") == LedgerFile("/var/lib/cron%20.db")
    assert str(LedgerFile("/var/x")) == "sqlite:////var/x"


def test_a_server_is_named_with_its_database() -> None:
    there = server("mysql+pymysql://ant:s%2Fcret@a,b:3307/cron?ssl_ca=/ca.pem")

    assert there.hosts == (Host("a", 3306), Host("b", 3307))
    assert (there.url.user, there.url.password, there.database) == ("ant", "s/cret", "cron")
    assert str(there) == "mysql+pymysql://a:3306,b:3307/cron"
    assert "s/cret" not in repr(there)


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("mysql://db/cron", Tls.VERIFIED),
        ("mysql://10.0.0.1/cron?ssl_ca=/ca.pem", Tls.VERIFIED),
        ("mysql://db/cron?tls=off", Tls.OFF),
        ("mysql://127.0.0.1/cron", Tls.OFFERED),
        ("mysql:///cron?unix_socket=/run/m.sock", Tls.OFFERED),
        ("mysql://localhost/cron?tls=verified", Tls.VERIFIED),
        ("mysql://localhost/cron?ssl_ca=/ca.pem", Tls.VERIFIED),
    ],
)
def test_tls_is_verified_unless_it_is_this_machine_or_somebody_says_otherwise(
    url: str, tls: Tls
) -> None:
    there = server(url)

    assert [there.tls_to(host) for host in there.hosts] == [tls]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("oracle://c4nary@h/x", 'must be like "sqlite:///cronhare.sqlite3", "mysql+pymysql'),
        ("mysql://c4nary@h", "ends with the name of the database"),
        ("mysql://h/x?user=c4nary", "known are tls, ssl_ca"),
        ("mysql://h/x?tls=c4nary", "tls must be verified or off"),
        ("mysql://h/x?tls=off&ssl_ca=/x", "tls=off has no use for ssl_ca"),
        ("mysql://h/x?ssl_cert=/c4nary", "given together"),
        ("mysql://h,g/x?unix_socket=/c4nary", "one host at most"),
        ("sqlite://c4nary:p@/x", "has no user, no host"),
        ("sqlite:///x?c4nary=1", "without options"),
        ("sqlite:///:memory:", "name a file"),
    ],
)
def test_where_no_ledger_can_be_is_refused_without_a_word_of_it(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_ledger(url)

    assert why in str(caught.value)
    assert "c4nary" not in str(caught.value)


OPTIONS = ("cafile", "certfile", "keyfile")


@pytest.mark.parametrize("content", ["", "\n", "\N{LATIN SMALL LETTER E WITH ACUTE}", "no PEM"])
def test_a_ca_file_without_a_certificate_never_means_the_systems_own(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "ca.pem").write_text(content)

    with pytest.raises(tls.CertificatesUnusable, match=r"cafile .* cannot be read as PEM: "):
        tls.client_context(Certificates(options=OPTIONS, ca=str(tmp_path / "ca.pem")))


PUBLIC = "93.184.215.14"
INSIDE = "10.1.2.3"


def allows(rules: str, host: str, address: str) -> bool:
    hosts = AllowedHosts.parse(rules.split())
    web = WebAddress.parse(f"https://{host}/")
    return hosts.refusal(web) is None and hosts.allows(web, ip_address(address))


INSIDES = """
    0.0.0.0 10.0.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
    172.31.0.1 192.0.0.192 192.168.1.1 198.18.0.1 224.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1
    ::ffff:127.0.0.1 ::ffff:a9fe:a9fe 64:ff9b::7f00:1 64:ff9b:1::a00:1 2001::1 2001:db8::1
    2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1
"""


@pytest.mark.parametrize("address", INSIDES.split())
def test_what_leads_inside_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", [PUBLIC, "::ffff:93.184.215.14", "64:ff9b::5db8:d70e", "2606:4700::1"]
)
def test_what_is_given_out_to_anyone_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    ("rules", "host", "address", "allowed"),
    [
        ("", "any.example", PUBLIC, True),
        ("", "any.example", INSIDE, False),
        ("hooks.example", "hooks.example", PUBLIC, True),
        ("hooks.example", "hooks.example", INSIDE, False),
        ("hooks.example", "any.example", PUBLIC, False),
        ("hooks.example", "a.hooks.example", PUBLIC, False),
        ("*.example", "a.b.example", PUBLIC, True),
        ("*.example", "example", PUBLIC, False),
        ("*.example.org", "example.org.evil.net", PUBLIC, False),
        ("10.0.0.0/8", "any.example", INSIDE, True),
        ("10.0.0.0/8", "any.example", "::ffff:10.1.2.3", True),
        ("* 127.0.0.1", "localhost", "127.0.0.1", True),
        ("* 127.0.0.1", "localhost", "127.0.0.2", False),
        ("hooks.example 10.0.0.0/8", "any.example", PUBLIC, False),
        ("[::1]", "localhost", "::1", True),
        ("Hooks.Example.", "hooks.example", PUBLIC, True),
    ],
)
def test_a_name_is_allowed_at_public_addresses_and_a_network_under_any_name(
    rules: str, host: str, address: str, allowed: bool
) -> None:
    assert allows(rules, host, address) is allowed


@pytest.mark.parametrize(
    "rule", ["http://a", "a/b", "10.0.0.1/8", "127.1", "*.", "a..b", "**", "ü"]
)
def test_a_rule_that_is_none_is_told_by_its_number(rule: str) -> None:
    with pytest.raises(ValueError, match="host 2 is no name, address or network"):
        AllowedHosts.parse(["good.example", rule])
