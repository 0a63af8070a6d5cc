"""What the audit keeps of a value."""

import time
from typing import Any

import msgspec
import pytest

from cronhare.domain.access.audit import (
    LONGEST_PROBLEM,
    LONGEST_TARGET,
    Action,
    AuditOutcome,
    Intent,
    Result,
    kept,
)
from tests.actors import ADA
from tests.unit.application.house import NOON

DEEP: Any = "end"
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        ["x" * 10**5] * 10**4,
        {str(number): {"a": ["x" * 10**4] * 1_000} for number in range(1_000)},
        [[["x"] * 1_000] * 1_000] * 1_000,
        DEEP,
        10**5_000,
        {"\x1b" * 10**6: "\0"},
        ["\ud800"],
    ],
    ids=["text", "texts", "members", "lists", "deep", "number", "name", "surrogate"],
)
def test_a_value_of_any_size_is_kept_as_json_of_bounded_size(value: object) -> None:
    assert len(msgspec.json.encode(kept(value))) < 1_500_000


def test_what_is_small_is_kept_as_it_is() -> None:
    value = {"params": {"controller": "Report", "numbers": [1, 2.5, None, False]}}

    assert kept(value) == value


@pytest.mark.parametrize(
    "name",
    [
        *("password", "API_KEY", "db_password", "x-api-key", "Authorization", "access_token"),
        *("accessToken", "dbPassword", "pwd", "APIKey", "client-secret", "sessionCookie"),
    ],
)
def test_what_its_name_calls_a_secret_is_kept_nowhere(name: str) -> None:
    found = kept({"params": {"user": "ada", name: ["canary"], "inner": [{name: "canary"}]}})

    assert "canary" not in str(found)
    assert "ada" in str(found)


def test_who_a_url_names_is_kept_nowhere() -> None:
    found = kept({"url": "https://ada:canary@example.org/", "text": "see ftp://canary@host:21/x"})

    assert found == {"url": "https://***@example.org/", "text": "see ftp://***@host:21/x"}


@pytest.mark.parametrize(
    "text",
    [
        *("password=canary", "--password canary -v", "--db-password=canary", "DBPASS=canary x"),
        *("Bearer canary1234", "Authorization: Basic canary==", "curl -u ada:canary host"),
        *(
            "amqp://u:canary@h:5672/",
            "mysql://u:p@canary@h/x",
            "redis://:canary@h",
            "pwd: 'c canary'",
        ),
        *("https://h/x?token=canary&page=2", "PGPASSWORD=canary psql", "API key: canary"),
        *(
            '{"password": "x\\"canary"}',
            r"{\"token\": \"canary\"}",
            'sh -c "mysql --password=canary"',
        ),
        *(
            "Cookie: a=canary; b=canary",
            "<secret>canary</secret>",
            "token%3Dcanary",
            'secret="canary',
        ),
        *(
            "eyJhbGciOi.canary12.sig",
            "-----BEGIN EC PRIVATE KEY-----\ncanary",
            "chr_" + "canary_" * 6 + "c",
        ),
        *(
            "mysqldump -h db -u root -pcanary shop",
            "mariadb-admin -p'a canary' status",
            "sshpass -p canary ssh host",
            "sshpass -pcanary ssh host",
            "mongodump -password canary shop",
            "sqlcmd -Password canary",
            "redis-cli -auth canary get a",
            "mysql-backup -pwd 'a canary' shop",
            "ALTER USER ada IDENTIFIED BY 'a \\'canary'",
            'create user ada identified with sha2 by password "canary"',
        ),
        *(
            '{"Authorization": "ApiKey canary"}',
            "{'Authorization': 'Token canary'}",
            'Authorization="canary"',
            '{"Cookie": "sid=canary; b=canary"}',
            '"Set-Cookie":"sid=canary"',
            '"Proxy-Authorization": "x canary"',
            r"{\"Authorization\": \"x canary\"}",
            'Authorization: Digest user="ada", response="canary"',
        ),
        *(
            f"eyJhbGciOi.{'canary' * 1_000}.canary",
            f"eyJ{'canary' * 500}.canary12.canary",
            "access-eyJhbGciOi.canary12.canary",
        ),
        *(
            r"{\"password\": \"ab\\\"canary\"}",
            "password: |\n  canary\n\n  canary\nuser: ada",
            "password%20%3D%20canary",
            "a%26password%253Dcanary",
            "%7B%22password%22%3A%22canary%22%7D",
            "passwordOld=canary secret_new: canary",
        ),
        *(
            "https://discord.com/api/webhooks/1234/canary",
            "https://api.telegram.org/bot123456:canary_canary_canary_canary_canary/sendMessage",
        ),
        *(
            "x" * 150 + "_password=canary",
            "--token\ncanary",
            "SECRET_KEY_BASE=canary",
            "password\uff1acanary",
        ),
        *(
            '"Authorization": ["x canary", "canary"]',
            r"{\"Authorization\": [\"x canary\"]}",
            "{'Authorization': b'Token canary'}",
            "Authorization: b'Token canary'",
            'Authorization: Token "canary"',
            "password=b'a canary'",
            "password = $'a canary'",
            'password=Secret("a canary")',
            'password: $(pass "a b" canary)',
            'password: {"value": "a canary", "old": ["x canary"]}',
            "passwords:\n  - a canary\n  - canary\nuser: ada",
            "password='it''s canary'",
            "password          = canary",
            "password:             canary",
            "--password            canary",
        ),
        *(
            "- name: DB_PASSWORD\n  value: canary",
            '{"name":"password","val":"canary"}',
            '{"header": "Authorization", "value": "x canary"}',
        ),
        *(
            "mysql -u root \\\n  -pcanary shop",
            "mysql -u root \\\r\n  -pcanary shop",
            "command: >\n  mysql -u root\n  -pcanary shop",
            'mysql -u root "-pcanary" shop',
            "mysql -u root '-pa canary' shop",
            'mysql -e "a; b | c" -pcanary',
            "mysql -e'a; b' -pcanary",
            "sh -c \"mysql -e 'use mysql; x' -pcanary\"",
            "mysqldump shop orders -pCanary1canary",
            '["mysql", "-pcanary"]',
            "sshpass -v -p canary ssh host",
            "sshpass -v -p 'a canary' ssh host",
            "['sshpass', '-p', 'canary']",
            "redis-cli -h cache -a canary ping",
            "redis-cli -a \\\n canary",
            "curl -s -uada:canary host",
            "curl -s '-uada:a canary' host",
            "curl -U ada:canary host",
            "mongosh -u ada -p canary shop",
            "ldapsearch -x -w canary -b o=x",
            "sqlcmd -S db -U ada -P canary",
        ),
        *(
            "SET PASSWORD FOR ada = 'canary'",
            "SET PASSWORD FOR 'ada'@'%' = PASSWORD('canary')",
            "ALTER ROLE ada PASSWORD 'a canary'",
            "ALTER ROLE ada ENCRYPTED PASSWORD E'it''s canary'",
            "SELECT PASSWORD( 'canary' )",
            "CREATE USER ada IDENTIFIED VIA ed25519 USING 'canary'",
            "CREATE USER ada IDENTIFIED VIA ed25519 USING PASSWORD('canary')",
        ),
    ],
)
def test_what_a_text_shows_of_a_secret_is_kept_nowhere(text: str) -> None:
    intent = Intent(
        at=NOON,
        actor=ADA,
        action=Action.RUN,
        target=text,
        before={"args": [text], text: 1},
        after={"description": f"as {text} is"},
    )
    result = Result(id=1, at=NOON, outcome=AuditOutcome.REFUSED, problem=text, after=text)

    assert "canary" not in f"{intent} {result}"
    assert "as " in intent.after["description"]


@pytest.mark.parametrize(
    "value",
    [
        ["mysql", "--password", "canary"],
        ["curl", "-u", "ada:canary"],
        ["-H", "Authorization:", "Bearer", "canary"],
        ["DB_PASSWORD=", "canary", "x-amz-signature=canary", "DSN=ada:canary@tcp(h:1)/x"],
        [{"name": "DB_PASSWORD", "value": "canary"}],
        [{"Name": "password", "Values": ["canary"]}, {"key": "password", "Value": "canary"}],
        [["Authorization", "canary"]],
        [{"header": "Authorization", "value": "canary"}, {"name": "password", "content": "canary"}],
        ["password='a'canary", "password%3Acanary", "https://hooks.slack.com/services/T/B/canary"],
        {"password=canary": 1, "token": {"any": "canary"}},
        ["/usr/bin/mysql", "--user", "ada", "-pcanary", "shop"],
        ["sshpass", "-v", "-p", "canary", "ssh"],
        ["sshpass", "-pcanary", "ssh"],
        ["mysql-backup", "-password", "canary"],
        ["mysql", "-pwd", "canary"],
        ["sshpass", "-pass", "canary"],
        ["redis-cli", "-auth", "canary"],
        ["sqlcmd", "-Password", "canary"],
        ["redis-cli", "-h", "mysql", "-a", "canary"],
        ["curl", "-uada:canary", "-U", "ada:canary", "host"],
        {"params": {"command": ["mongosh", "-p", "canary"]}},
        "password=" + "canary" * 10_000,
        "-----BEGIN PRIVATE KEY-----\n" + "canary" * 10_000,
    ],
)
def test_what_its_neighbour_calls_a_secret_is_kept_nowhere(value: object) -> None:
    assert "canary" not in str(kept(value))


@pytest.mark.parametrize(
    "text",
    [
        *("there is a schedule refresh-token already", "https://example.org:8080/x?a=b", "key: 5"),
        *(
            "see https://example.org/@ada",
            "tokens_left: 7",
            "compass: north",
            "this token is not valid",
        ),
        *("schedule nightly: its row is broken", "concurrency_key: db", "--verbose --passive yes"),
        *(
            "mysql -h db -P3306 -p shop",
            "ssh -p 22 host",
            "it is identified by name",
            "mkdir -pv x",
        ),
        *(
            "the mysql server runs with -parallel jobs",
            "the files of mysql are in -path /srv",
            "mysql, they say, is in -path /srv",
            "redis-cli is run with -a flag",
            "mysql -h db; mkdir -pv x",
            'sh -c "mysql -h db" && mkdir -pv x',
            "curl -u ada host",
            "docker run -p 80:80 web",
            "the password is in the vault",
        ),
    ],
)
def test_other_texts_are_kept_as_they_are(text: str) -> None:
    assert kept(text) == text


def test_other_words_are_kept_as_they_are() -> None:
    words = ["mkdir", "-pv", "mysql", "-P3306", "-p", "shop", 5, "redis-cli", "-n", "1", "-a"]

    assert kept(words) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"Authorization": ["x canary"], "b": 1}', '{"Authorization": ***, "b": 1}'),
        ("{'Cookie': b'x canary', 'b': 1}", "{'Cookie': ***, 'b': 1}"),
        ("mysql -u root '-pa canary' shop", "mysql -u root '-p***' shop"),
        ('["sshpass", "-p", "canary", "ssh"]', '["sshpass", "-p", ***, "ssh"]'),
        ("SET PASSWORD FOR x = 'it''s canary';", "SET PASSWORD FOR x = ***;"),
        ("curl -H 'Cookie: a=canary' host", "curl -H 'Cookie: ***' host"),
    ],
)
def test_what_stands_beside_a_secret_is_kept(text: str, shown: str) -> None:
    assert kept(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        each * (100_000 // len(each))
        for each in (
            "a://b:c",
            "a:",
            'a="',
            "password=",
            "-a ",
            "eyJ",
            "eyJ---",
            "eyJ-",
            "a-eyJaaaaa.",
            "eyJ.",
            "a-",
            "1:",
            "%3D%20",
            "a%22",
            "password%3D%20",
            "password: |\n ",
            "password: |\n",
            'authorization: ="',
            "cookie: \\",
            'password: \\"\\\\',
            "basic a",
            "\\",
            "a.",
            "sk_",
            "mysql ",
            "mysql-",
            "mysql -p ",
            "mysql\t\t\ta",
            "mysql -p'",
            "sshpass -p ",
            "identified by ",
            "identified with a by '",
            "password: [",
            'password=a("',
            'password: (\\"',
            "password:\n- ",
            "password" + " " * 200,
            "a1111111" + " " * 200,
            'password,"value":',
            "curl -u [ ",
            'curl "-u ',
            "mysql '\\",
            'mysql "-pa ',
            "mysql a a -p( ",
            "mysql \\\n",
            "set password for a ",
            "password (",
            "redis-cli -a ",
            'cookie: a "',
        )
    ],
)
def test_no_text_is_long_to_read(text: str) -> None:
    began = time.process_time()

    kept(text)
    kept([[text] * 100] * 5)

    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "name", ["concurrency_key", "tokens_left", "passenger", "key", "keyboard", "secretary"]
)
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert kept({name: 7}) == {name: 7}


def test_what_was_changed_and_why_not_deceive_no_reader() -> None:
    intent = Intent(at=NOON, actor=ADA, action=Action.RUN, target="a\n\x1b[2J" + "x" * 1_000)
    result = Result(id=1, at=NOON, outcome=AuditOutcome.REFUSED, problem="\x1b" * 10_000 + "\u202e")

    assert intent.target.isprintable()
    assert len(intent.target) <= LONGEST_TARGET
    assert result.problem is not None
    assert result.problem.isprintable()
    assert len(result.problem) <= LONGEST_PROBLEM
