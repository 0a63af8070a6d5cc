"""Who may ask over HTTP, over real sockets: each refusal, and what ends with a token."""

import json
import secrets
import time
from pathlib import Path
from urllib.parse import urlencode

import attrs
import pytest
from sqlalchemy import select

from cronhare.adapters.sql.tables.tables import audit
from cronhare.domain.access import Scope, looks_like_token, make_token
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.node_identity import this_actor
from cronhare.entrypoints.processes.lifetime import refuse_without_token
from cronhare.entrypoints.settings.settings import Settings, SettingsInvalid
from cronhare.entrypoints.web import access
from cronhare.ports.records import AuditFilter
from tests.actors import ADA
from tests.integration.shell import Shell
from tests.integration.web import FORM, JSON, Answer, Site
from tests.services.finding import wait_until

HTML = {"Accept": "text/html"}
NAME = "cron.example.org"
PROXIED = {"Host": NAME, "X-Forwarded-For": "192.0.2.7"}


@pytest.fixture
def container(on_sqlite: Settings, monkeypatch: pytest.MonkeyPatch) -> Container:
    monkeypatch.setenv("CRON_WEB_HOSTS", NAME)  # some tests read the settings anew
    monkeypatch.setattr(access, "FRESH", 0.2)
    task = Task(name="report", ref=TaskRef("report", 25), command=("true",))
    return Container(settings=attrs.evolve(on_sqlite, web_hosts=(NAME,)), tasks=(task,))


def token(container: Container, scope: Scope = Scope.ADMIN, name: str = "") -> str:
    made = container.admission().create(
        name or scope.word, scope, lives=None, chance=secrets.token_bytes(32), actor=ADA
    )
    time.sleep(0.3)  # until what was known without it counts no more
    return made.secret


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def sign_in(web: Site, secret: str, path: str = "/", **headers: str) -> Answer:
    body = urlencode({"token": secret, "next": path})
    return web.ask("POST", "/ui/sign-in", body, {**FORM, **HTML, **headers})


def cookie_of(answer: Answer) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def actors(container: Container) -> list[tuple[str, str, str, str]]:
    found = container.audit_store().entries(AuditFilter(), before=None, limit=100)
    return [(each.actor, each.channel, each.action, each.outcome) for each in found]


def test_this_machine_is_free_until_the_first_token_is_made_and_never_again(
    web: Site, container: Container
) -> None:
    before = web.get("/schedulers/1").status
    secret = token(container)

    after = web.get("/schedulers/1")
    container.admission().revoke("admin", actor=ADA)
    time.sleep(0.3)

    assert (before, after.status) == (404, 401)
    assert after.headers["www-authenticate"].startswith("Bearer")
    assert "cronhare tokens create" in after.json()["detail"]
    assert web.get("/schedulers/1").status == 401
    assert web.get("/schedulers/1", **bearer(secret)).status == 401


def test_what_a_proxy_passes_on_needs_a_token_from_the_start(web: Site) -> None:
    for header in ({"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=[::1]"}, PROXIED):
        assert web.get("/schedulers/1", **header).status == 401


def test_a_host_that_is_not_named_is_refused_and_one_that_is_has_its_origin(
    web: Site, container: Container
) -> None:
    known = {**bearer(token(container)), "Host": NAME}

    assert web.get("/schedulers/1", Host="cron.example.com").status == 421
    assert web.get("/schedulers/1", **known).status == 404
    assert web.get("/schedulers/1", **{**known, "Host": f"{NAME}:8443"}).status == 404
    assert web.get("/schedulers/1", **known, Origin=f"https://{NAME}").status == 404
    for foreign in (f"http://{NAME}", "https://evil.example", "null", f"https://{NAME}.evil"):
        assert web.get("/schedulers/1", **known, Origin=foreign).status == 403


def test_a_scope_that_is_too_narrow_is_refused_with_the_one_that_is_needed(
    web: Site, container: Container
) -> None:
    reader = bearer(token(container, Scope.READ))
    body = json.dumps({"schedule": "0 8 * * *", "report_id": 25})

    refused = web.ask("POST", "/schedulers", body, {**JSON, **reader})

    assert web.get("/schedulers/1", **reader).status == 404
    assert refused.status == 403
    assert refused.json()["detail"] == "this needs the scope admin; read has read"
    assert 'scope="admin"' in refused.headers["www-authenticate"]


def test_a_right_token_passes_that_was_never_seen_while_its_neighbours_try_wrong_ones(
    web: Site, container: Container
) -> None:
    known, wrong = token(container), make_token(bytes(32))
    revoked = token(container, name="old")
    container.admission().revoke("old", actor=ADA)
    for _ in range(access.MOST_FROM_ONE):
        assert web.get("/schedulers/1", **bearer(wrong)).status == 401

    refused = web.get("/schedulers/1", **bearer(revoked))
    assert (refused.status, 0 < int(refused.headers["retry-after"]) <= 60) == (429, True)
    assert sign_in(web, known).status == 303
    assert web.get("/schedulers/1", **bearer(token(container, name="new"))).status == 404
    assert sign_in(web, revoked).status == 429


def test_people_sign_in_are_where_they_were_and_sign_out_everywhere(
    web: Site, container: Container
) -> None:
    secret = token(container)

    sent = web.get("/ui/load?x=1", **HTML)
    asked = web.get(sent.headers["location"], **HTML)
    begun = sign_in(web, secret, "/ui/load?x=1")
    cookie = cookie_of(begun)

    assert (sent.status, sent.headers["location"]) == (303, "/ui/sign-in?next=%2Fui%2Fload%3Fx%3D1")
    assert (asked.status, 'value="/ui/load?x=1"' in asked.text) == (200, True)
    assert (begun.status, begun.headers["location"]) == (303, "/ui/load?x=1")
    attributes = begun.headers["set-cookie"].lower()
    assert all(each in attributes for each in ("httponly", "samesite=strict", "path=/", "max-age"))
    assert secret not in begun.headers["set-cookie"]
    assert web.get("/ui/load", **HTML, **cookie).status == 200
    assert web.get("/schedulers/1", **cookie).status == 401  # the API knows no cookies

    out = web.ask("POST", "/ui/sign-out", "", {**FORM, **HTML, **cookie})
    assert (out.status, "max-age=0" in out.headers["set-cookie"].lower()) == (303, True)
    assert web.get("/ui/load", **HTML, **cookie).status == 303
    assert actors(container)[:2] == [
        ("admin", "page", "session.end", "done"),
        ("admin", "page", "session.begin", "done"),
    ]


def test_over_tls_the_cookie_is_for_tls_alone(web: Site, container: Container) -> None:
    secret = token(container)

    begun = sign_in(web, secret, **PROXIED, Origin=f"https://{NAME}")

    assert begun.headers["set-cookie"].startswith("__Host-cronhare_session=")
    assert "secure" in begun.headers["set-cookie"].lower()
    assert web.get("/ui/load", **HTML, **PROXIED, **cookie_of(begun)).status == 200
    assert web.get("/ui/load", **HTML, **cookie_of(begun)).status == 303


def test_who_signs_in_with_what_is_no_token_is_told_and_sent_nowhere(
    web: Site, container: Container
) -> None:
    token(container)

    refused = sign_in(web, "<script>alert(1)</script>", "//evil.example")

    assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    assert "not valid" in refused.text
    assert "<script>alert" not in refused.text
    assert "evil.example" not in refused.text


def test_a_link_of_another_site_shows_the_page_to_who_is_signed_in(
    web: Site, container: Container
) -> None:
    begun = sign_in(web, token(container))
    visit = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }

    path = "/ui/timeline?span=6h&by=node"
    first = web.get(path, **HTML, **visit)  # without the cookie, which is strict
    again = web.get(path, **HTML, **cookie_of(begun))
    framed = web.get("/ui/load", **HTML, **{**visit, "Sec-Fetch-Dest": "iframe"})

    assert (first.status, 'url=/ui/timeline?span=6h&amp;by=node"' in first.text) == (200, True)
    assert (again.status, framed.status) == (200, 403)


def test_a_revoked_token_ends_its_sessions_within_seconds(web: Site, container: Container) -> None:
    begun = sign_in(web, token(container))
    cookie = begun.headers["set-cookie"].partition(";")[0]
    assert web.get("/ui/load", **HTML, Cookie=cookie).status == 200

    container.admission().revoke("admin", actor=ADA)

    def is_out() -> bool:
        return web.get("/ui/load", **HTML, Cookie=cookie).status == 303

    wait_until(is_out, seconds=6, what="the end of the session")


def test_no_secret_of_a_text_is_kept_or_shown_by_the_audit(
    web: Site, container: Container, tmp_path: Path
) -> None:
    ledger = {"CRON_DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db"}
    shell, said = Shell(tmp_path), "amqp://u:canary@h Bearer canary12"
    new = {"name": "nightly", "schedule": "0 8 * * *", "report_id": 25, "description": said}
    made = web.post("/schedulers", {**new, "params": {"token": "canary", said: said}})
    seen = {"If_Match": made.headers["etag"]}
    edited = web.send_json(
        "PATCH", made.headers["location"], {"description": f"{said} too"}, **seen
    )
    form = urlencode({"for": "2h", "reason": said})
    paused = web.ask("POST", "/ui/schedules/nightly/pause", form, FORM)
    again = shell("schedules", "pause", "nightly", "--reason", said, **ledger)
    run = shell("run", "nightly", "--params", json.dumps({"text": said}), **ledger)

    assert [each.status for each in (made, edited, paused, again, run)] == [201, 200, 303, 0, 0]
    with container.engine().connect() as connection:
        kept = str(connection.execute(select(audit)).all())
    listed = shell("audit", "list", "--json", **ledger)
    assert [(each["channel"], each["action"]) for each in reversed(listed.json())] == [
        ("api", "schedule.create"),
        ("api", "schedule.edit"),
        ("page", "schedule.pause"),
        ("cli", "schedule.pause"),
        ("cli", "schedule.run"),
    ]
    for shown in (kept, web.get("/audit").text, web.get("/ui/audit").text, listed.out):
        assert "amqp://***@h Bearer ***" in shown
        assert "canary" not in shown


def test_an_address_that_others_reach_is_opened_once_there_is_a_valid_token(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRON_WEB_ADDRESS", "0.0.0.0:8520")
    container.settings.override(Settings.read())

    with pytest.raises(SettingsInvalid, match="cronhare tokens create"):
        refuse_without_token(container)
    token(container)
    refuse_without_token(container)
    container.admission().revoke("admin", actor=ADA)
    with pytest.raises(SettingsInvalid, match="no valid token"):
        refuse_without_token(container)


def test_the_command_line_makes_lists_and_revokes_tokens_and_shows_who_did(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell("db", "upgrade")

    made = shell("tokens", "create", "ci", "--scope", "operate", "--expires", "90d")
    secret = made.out.splitlines()[0]
    listed = shell("tokens", "list", "--json")
    refused = shell("tokens", "create", "ci", "--scope", "read")
    revoked = shell("tokens", "revoke", "ci")
    audit = shell("audit", "list", "--json")

    assert (made.status, looks_like_token(secret)) == (0, True)
    assert [(each["name"], each["scope"], each["valid"]) for each in listed.json()] == [
        ("ci", "operate", True)
    ]
    assert (refused.status, "there is a token 'ci' already" in refused.err) == (2, True)
    assert (revoked.status, shell("tokens", "revoke", "nobody").status) == (0, 2)
    assert [(each["action"], each["target"], each["outcome"]) for each in audit.json()] == [
        ("token.revoke", "ci", "done"),
        ("token.create", "ci", "refused"),
        ("token.create", "ci", "done"),
        ("ledger.upgrade", "ledger", "done"),
    ]
    assert {each["actor"] for each in audit.json()} == {this_actor().name}
    assert secret not in listed.out + audit.out + revoked.out


def test_no_secret_is_in_the_ledger(web: Site, container: Container, tmp_path: Path) -> None:
    secret = token(container)
    cookie = cookie_of(sign_in(web, secret))["Cookie"].partition("=")[2]
    container.engine().dispose()

    kept = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))

    assert b"session.begin" in kept
    assert secret.encode() not in kept
    assert cookie.encode() not in kept


def test_probes_need_no_token_and_metrics_need_one_that_may_read(
    web: Site, container: Container
) -> None:
    free = web.get("/metrics").status
    reader = bearer(token(container, Scope.READ))

    assert (free, web.get("/metrics").status) == (200, 401)
    assert [web.get(path).status for path in ("/healthz", "/readyz")] == [200, 200]
    assert web.get("/readyz").json() == {"ok": True, "faults": []}
    assert web.ask("POST", "/healthz", "{}", JSON).status == 405
    found = web.get("/metrics", **reader)
    assert found.headers["content-type"].startswith("text/plain")
    assert "job_queue_dlq_depth 0.0" in found.text
    assert 'cronhare_connection_up{connection="ledger"} 1.0' in found.text


def test_a_key_of_one_token_is_none_of_another_and_the_audit_tells_what_it_began(
    web: Site, container: Container
) -> None:
    ann, ben = (bearer(token(container, name=name)) for name in ("ann", "ben"))
    body = json.dumps({"schedule": "0 8 * * *", "report_id": 25})
    made = web.ask("POST", "/schedulers", body, {**JSON, **ann}).json()

    def run(whose: dict[str, str], params: object) -> Answer:
        headers = {**JSON, **whose, "Idempotency-Key": "K1"}
        path = f"/schedulers/{made['id']}/run"
        return web.ask("POST", path, json.dumps({"params": params}), headers)

    first, again, bens, reused = run(ann, {}), run(ann, {}), run(ben, {}), run(ann, {"other": 1})

    assert (first.status, reused.status) == (202, 422)
    assert again.json()["id"] == first.json()["id"] != bens.json()["id"]
    told = [
        each
        for each in container.audit_store().entries(AuditFilter(), before=None, limit=100)
        if each.action == "schedule.run"
    ]
    assert [(each.actor, each.outcome) for each in reversed(told)] == [
        ("ann", "done"),
        ("ann", "unchanged"),
        ("ben", "done"),
        ("ann", "refused"),
    ]
