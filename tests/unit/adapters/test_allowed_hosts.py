from ipaddress import ip_address

import pytest

from cronhare.adapters.http.allowed_hosts import AllowedHosts, is_public
from cronhare.domain.addresses import WebAddress

PUBLIC = "93.184.215.14"
INSIDE = "10.1.2.3"


def allows(rules: str, host: str, address: str) -> bool:
    hosts = AllowedHosts.parse(rules.split())
    web = WebAddress.parse(f"https://{host}/")
    return hosts.refusal(web) is None and hosts.allows(web, ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.31.0.1",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
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
        ("", PUBLIC, PUBLIC, True),
        ("", "127.0.0.1", "127.0.0.1", False),
        ("hooks.example", "hooks.example", PUBLIC, True),
        ("hooks.example", "hooks.example", INSIDE, False),
        ("hooks.example", "any.example", PUBLIC, False),
        ("hooks.example", "a.hooks.example", PUBLIC, False),
        ("hooks.example", PUBLIC, PUBLIC, False),
        ("*.example", "a.b.example", PUBLIC, True),
        ("*.example", "example", PUBLIC, False),
        ("*.example", "notexample", PUBLIC, False),
        ("*.example.org", "example.org.evil.net", PUBLIC, False),
        ("10.0.0.0/8", "any.example", INSIDE, True),
        ("10.0.0.0/8", INSIDE, INSIDE, True),
        ("10.0.0.0/8", "any.example", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "any.example", PUBLIC, False),
        ("* 127.0.0.1", "any.example", PUBLIC, True),
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
