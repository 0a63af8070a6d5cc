"""`cronhare tokens create | list | revoke` and `cronhare audit list`."""

import secrets
from typing import Annotated, Final

import typer

from cronhare.application.administration.changing.access import TokenNameTaken, TokenView
from cronhare.application.administration.changing.work import MOST_LISTED
from cronhare.domain.access import GIVEN, RANDOM_BYTES, Scope, TokenInvalid
from cronhare.domain.audit import AuditEntry
from cronhare.domain.texts.moments import DurationInvalid, parse_duration
from cronhare.ports.records import AuditFilter

from ...node_identity import this_actor
from ..errors import Refusal
from ..output import Columns, Json, Styled, answer, json_line, print_json, print_line, print_rows
from ..times import IN_ZONE, PAST, moment, none_since, read_span
from ..wiring import open_ledger

Name = Annotated[str, typer.Argument(help="The token's name: who has it, or what.")]

_SCOPES: Final = ", ".join(scope.word for scope in GIVEN)


def create(
    name: Name,
    *,
    scope: Annotated[str, typer.Option(help=f"How far it reaches: {_SCOPES}.")],
    expires: Annotated[
        str | None, typer.Option(help="After how long it ends, as 90d; else never.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token for the HTTP API and the page. It is printed once, and kept nowhere.

    read sees everything. operate also runs, cancels, pauses, replays and discards. admin also
    creates, edits and deletes schedules.
    """
    advice = "No token was made."
    try:
        reach = Scope.parse(scope)
        lives = None if expires is None else parse_duration(expires)
    except ValueError as error:
        option = "--expires" if isinstance(error, DurationInvalid) else "--scope"
        raise Refusal(f"{option}: {error}", advice=advice) from error
    container = open_ledger()
    try:
        made = container.admission().create(
            name, reach, lives=lives, chance=secrets.token_bytes(RANDOM_BYTES), actor=this_actor()
        )
    except (TokenInvalid, TokenNameTaken) as error:
        raise Refusal(str(error), advice=advice) from error
    if json:
        print_json(made)
        return
    print_line(made.secret)
    ends = f"until {moment(made.expires_at)}" if made.expires_at else "until it is revoked"
    print_line(f"That is the token {name}: scope {made.scope}, {ends}. It is not shown again.")
    print_line("Send it as `Authorization: Bearer …`, or sign in with it at /ui/sign-in.")
    if container.settings().web_login == "auto":
        free = "CRON_WEB_LOGIN=never keeps them free"
        print_line(f"While there is a token, requests of this machine need one too; {free}.")


def tokens(*, json: Json = False) -> None:
    """List tokens: how far each reaches, until when, and when it was used last."""
    container = open_ledger()
    found = container.admission().tokens()
    columns: Columns[TokenView] = {
        "NAME": "name",
        "SCOPE": "scope",
        "CREATED": "created_at",
        "BY": "made_by",
        "EXPIRES": "expires_at",
        "LAST USED": "last_used_at",
        "NOT VALID": "problem",
    }
    empty = "There is no token: `cronhare tokens create` makes one."
    print_rows(found, columns, json=json, empty=empty)


def revoke(name: Name, *, json: Json = False) -> None:
    """Let a token, and whoever signed in with it, do nothing any more, within seconds."""
    container = open_ledger()
    revoked = container.admission().revoke(name, actor=this_actor())
    said = f"The token {name} is no more valid, nor is a session that was begun with it."
    answer(revoked, said, json=json)


def audit(
    *,
    since: Annotated[
        str | None, typer.Option(help=f"Only from then on: {PAST}. {IN_ZONE}.")
    ] = None,
    who: Annotated[
        str | None, typer.Option(help="Only of this actor: user@host, a token's name, local.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Only on this: a schedule's name, an execution's number.")
    ] = None,
    before: Annotated[int | None, typer.Option(help="Only entries before this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List who changed what, newest first: from the command line, the API and the page.

    An outcome `unknown` says that the process ended before it could tell.
    """
    container = open_ledger()
    begin, _ = read_span(since, None, now=container.ledger_time().now())
    which = AuditFilter(since=begin, actor=who, target=on)
    found = container.audit_store().entries(which, before=before, limit=limit)
    columns: Columns[AuditEntry] = {
        "ID": "id",
        "AT": "at",
        "WHO": "actor",
        "BY": "channel",
        "ACTION": "action",
        "ON": "target",
        "BEFORE": lambda entry: _short(entry.before),
        "AFTER": lambda entry: _short(entry.after),
        "OUTCOME": lambda entry: Styled(entry.outcome),
        "WHY": "problem",
    }
    empty = "Nobody has changed anything that is kept."
    if {since, who, on, before} != {None}:
        empty = none_since("No entry is like that.", begin)
    spare, elastic = ("BEFORE", "BY", "WHY"), ("BEFORE", "AFTER", "WHY")
    print_rows(found, columns, json=json, empty=empty, spare=spare, elastic=elastic)


#: Letters of a value in a table; `--json` has it as it is kept.
_SHOWN: Final = 60


def _short(value: object) -> str | None:
    if value in (None, {}):
        return None
    text = json_line(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
