import pytest

from cronhare.domain.addresses.servers import Host, LedgerFile, LedgerServer, Tls, parse_ledger


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
        ("mysql:///cron", Tls.OFFERED),
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
    ("url", "proven"),
    [
        ("mysql://db/cron", True),
        ("mysql://localhost/cron?ssl_ca=/ca.pem", True),
        ("mysql:///cron?unix_socket=/run/m.sock", True),
        ("mysql:///cron?unix_socket=/run/m.sock&tls=off", True),
        ("mysql://localhost/cron", False),
        ("mysql://db/cron?tls=off", False),
    ],
)
def test_a_certificate_or_a_socket_proves_who_answers(url: str, *, proven: bool) -> None:
    there = server(url)

    assert [there.is_proven(host) for host in there.hosts] == [proven]


def test_of_several_hosts_each_is_judged_by_itself() -> None:
    there = server("mysql://localhost,db/cron")

    assert [there.tls_to(host) for host in there.hosts] == [Tls.OFFERED, Tls.VERIFIED]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("oracle://c4nary@h/x", 'must be like "sqlite:///cronhare.sqlite3", "mysql+pymysql'),
        ("mysql+mysqldb://c4nary@h/x", "must be like"),
        ("mysql://c4nary@h", "ends with the name of the database"),
        ("mysql://c4nary@h/", "ends with the name of the database"),
        ("mysql://h/x?user=c4nary", "known are tls, ssl_ca"),
        ("mysql://h/x?tls=c4nary", "tls must be verified or off"),
        ("mysql://h/x?tls=off&ssl_ca=/x", "tls=off has no use for ssl_ca"),
        ("mysql://h/x?ssl_cert=/c4nary", "given together"),
        ("mysql://h,g/x?unix_socket=/c4nary", "one host at most"),
        ("sqlite://c4nary:p@/x", "has no user, no host"),
        ("sqlite+c4nary:///x", "no driver"),
        ("sqlite:///x?c4nary=1", "without options"),
        ("sqlite:///", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file:x", "by a plain path"),
    ],
)
def test_where_no_ledger_can_be_is_refused_without_a_word_of_it(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_ledger(url)

    assert why in str(caught.value)
    assert "c4nary" not in str(caught.value)
