"""What is noted of a schedule that nobody here would run."""

import attrs

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.topic import ref_of_topic
from tests.unit.application.house import REPORT, House
from tests.unit.application.test_names import nightly, serve


def test_a_queue_that_no_worker_serves_is_noted_once() -> None:
    house, misspelt = House(), nightly(queue="mial")
    [alone] = house.draft_notes.of(misspelt)
    serve(house, "mail")
    note = house.draft_notes.of

    assert alone == "queue: no worker serves 'mial', its runs wait for one"
    assert note(misspelt) == [f"{alone}; did you mean mail?"]
    assert [*note(misspelt, before=nightly(queue="mail"))] == [*note(misspelt)]
    assert not note(misspelt, before=misspelt)
    assert not note(nightly(queue="mail"))
    assert not note(nightly())


def test_a_topic_to_which_no_task_listens_is_noted_once() -> None:
    def about(topic: str) -> ScheduleDraft:
        return nightly(task=ref_of_topic(topic), topic=topic, task_name=None)

    note = House(tasks=[attrs.evolve(REPORT, topics=("orders.paid",))]).draft_notes.of
    text = "topic: no task of this jobs file listens to 'orders.piad', another file's may"

    assert note(about("orders.piad")) == [f"{text}; did you mean orders.paid?"]
    assert House().draft_notes.of(about("orders.piad")) == [text]
    assert not note(about("orders.piad"), before=about("orders.piad"))
    assert not note(about("orders.paid"))
    assert not note(nightly())
