"""*Failed*, *Quarantine* and *Replays*: what failed for good, run again with care or discarded."""

from http import HTTPStatus
from typing import Annotated, Final

import attrs
from msgspec import Meta

from cronhare.application.administration.views.failures import ReplayView
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.texts.words import counted
from cronhare.ports.statistics import By

from ...api.failures import Paced, PageOfFailures, WhichFailures
from ...operations import Call, Reply, Resource, last_id
from ...problems import Problem
from ...reading import Id, Page, Text
from ..pages import Context, Done, acts, shows

PATH: Final = "/ui/failed"
QUARANTINE: Final = "/ui/quarantine"
REPLAYS: Final = "/ui/replays"

#: Groups of each kind beside a list of failures, and replays that are told of there.
_GROUPS: Final = 8
_REPLAYS: Final = 5

#: What a person says of failures that are discarded.
_LONGEST_NOTE: Final = 500
Note = Annotated[
    str, Meta(max_length=_LONGEST_NOTE, description=f"text of at most {_LONGEST_NOTE} letters")
]


@attrs.frozen(kw_only=True)
class ReplayForm(WhichFailures, Paced):
    """Which failures to run again, and how; `stop_at` is in per cent, and left empty never."""

    key: Text | None = None


@attrs.frozen(kw_only=True)
class DiscardForm(WhichFailures):
    """Which failures to resolve without a run, and why."""

    note: Note = ""


@attrs.frozen(kw_only=True)
class DiscardOneForm:
    """Why one is resolved without a run."""

    note: Note = ""


@attrs.frozen(kw_only=True)
class ListedQuarantine(Page):
    """Which of the quarantine are listed."""

    schedule: Text | None = None


class Failures(Resource):
    """The archive."""

    @shows(
        PATH, "failed.html", empty={"found": (), "count": 0, "replays": (), "classes": ErrorClass}
    )
    def list_failures(self, query: PageOfFailures) -> Reply[Context]:
        queries, replays = self._container.queries(), self._container.replays()
        which, statistics = query.filter, self._container.statistics()
        found = queries.failures(which, before=query.after, limit=query.limit)
        shown = {
            "found": found,
            "count": replays.count(which),
            "reasons": statistics.failures(which, by=[By.REASON], limit=_GROUPS),
            "schedules": statistics.failures(which, by=[By.SCHEDULE], limit=_GROUPS),
            "replays": replays.list(limit=_REPLAYS),
            "classes": ErrorClass,
        }
        return Reply(shown, after=last_id(found, limit=query.limit))

    @shows(f"{PATH}/{{archived_id}}", "failure.html")
    def show_failure(self, archived_id: Id) -> Context:
        found = self._container.queries().failure(archived_id)
        return {"found": found, "one": found.failure}

    @acts(f"{PATH}/{{archived_id}}/replay")
    def replay_failure(self, archived_id: Id, call: Call) -> Done:
        administrator = self._container.administrator()
        done = administrator.replay([archived_id], actor=call.actor)
        if why := done.refused.get(archived_id):
            raise Problem(HTTPStatus.CONFLICT, f"failure {archived_id} cannot run again: {why}")
        if not done.executions:
            return Done(f"{PATH}/{archived_id}", f"Failure {archived_id} was resolved before.")
        [execution_id] = done.executions
        return Done(f"/ui/executions/{execution_id}", f"Execution {execution_id} runs again.")

    @acts(f"{PATH}/{{archived_id}}/discard")
    def discard_failure(self, archived_id: Id, body: DiscardOneForm, call: Call) -> Done:
        done = self._container.administrator().discard(
            [archived_id], note=body.note, actor=call.actor
        )
        said = "is discarded" if done.failures else "was resolved before"
        return Done(f"{PATH}/{archived_id}", f"Failure {archived_id} {said}.")

    @acts(f"{PATH}/replay")
    def replay_failures(self, body: ReplayForm, call: Call) -> Done:
        per_cent = body.stop_at
        paced = attrs.evolve(body, stop_at=None if per_cent is None else per_cent / 100)
        rules = {"stop_at": None, **paced.rules(call)}
        order = ReplayOrder(which=body.filter, key=body.key, **rules)
        ordered = self._container.replays().order(order, actor=call.actor)
        if ordered.replay is None:
            return Done(PATH, "No failure is like that any more: nothing was begun.")
        many = counted(ordered.failures, "failure")
        said = f"Replay {ordered.replay.id} has begun, of {many}."
        return Done(f"{REPLAYS}/{ordered.replay.id}", said)

    @acts(f"{PATH}/discard")
    def discard_failures(self, body: DiscardForm, call: Call) -> Done:
        # What failed while the form was filled in is not meant by whoever has not seen it.
        which = attrs.evolve(body.filter, until=min(body.until or call.now, call.now))
        done = self._container.administrator().discard_all(which, note=body.note, actor=call.actor)
        return Done(PATH, f"{done.failures:,} failures are discarded.")

    @shows(QUARANTINE, "quarantine.html", empty={"found": (), "view": None})
    def list_quarantine(self, query: ListedQuarantine) -> Reply[Context]:
        which = FailureFilter(schedule=query.schedule)
        queries = self._container.queries()
        view = queries.quarantine(which, before=query.after, limit=query.limit)
        after = last_id(view.quarantined, limit=query.limit)
        return Reply({"view": view, "found": view.quarantined}, after=after)


class Replays(Resource):
    """Replays of many failures, and backfills, as they go on."""

    @shows(REPLAYS, "replays.html")
    def list_replays(self, query: Page) -> Reply[Context]:
        replays = self._container.replays()
        found = replays.list(limit=query.limit, before=query.after)
        return Reply({"found": found}, after=last_id(found, limit=query.limit))

    @shows(f"{REPLAYS}/{{replay_id}}", "replay.html", live=2)
    def show_replay(self, replay_id: Id) -> Context:
        return {"one": self._container.replays().show(replay_id)}

    @acts(f"{REPLAYS}/{{replay_id}}/stop")
    def stop_replay(self, replay_id: Id, call: Call) -> Done:
        replays, actor = self._container.replays(), call.actor
        return _told(replays.stop(replay_id, author=actor.name, actor=actor))

    @acts(f"{REPLAYS}/{{replay_id}}/resume")
    def resume_replay(self, replay_id: Id, call: Call) -> Done:
        replays = self._container.replays()
        return _told(replays.resume(replay_id, actor=call.actor))


def _told(one: ReplayView) -> Done:
    return Done(f"{REPLAYS}/{one.id}", f"Replay {one.id} is {one.state}.")
