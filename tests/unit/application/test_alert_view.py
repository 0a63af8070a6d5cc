"""What is shown of an alert: all of one as it is raised, and no more than fits."""

from cronhare.application.administration.views.alerts import AlertView
from cronhare.domain.lifecycle.alerts import RaisedAlert
from cronhare.domain.lifecycle.events import LARGEST_PARAMS
from cronhare.entrypoints.json_text import as_json
from tests.integration.ledgers import NOON


def test_no_more_is_shown_of_one_than_fits() -> None:
    long = "x" * 10**6
    said = dict.fromkeys(("message", "title", "runbook"), long)
    many = {f"more{number}": "x" * 100 for number in range(10_000)}
    data = {"alert": said, "value": 6, "executionId": 7, **many, long: 8}
    spoilt = RaisedAlert(
        key=f"failed:{long}", raised_at=NOON, data=data, subject=long, source=long, scheduler_id=1
    )

    shown = AlertView.of(spoilt, (), {})

    assert len(as_json(shown, encode=str)) < 50_000
    assert (shown.value, shown.data["value"], shown.data["executionId"]) == (6, 6, 7)
    assert "characters left out" in shown.message
    assert shown.message.startswith("xxx")


def test_what_fits_is_measured_as_it_is_sent() -> None:
    data = {"long": "\x7f" * 6_000, "short": "\x7f" * 5_000, "value": 6}

    shown = AlertView.of(RaisedAlert(key="failed", raised_at=NOON, data=data), (), {})

    assert shown.data == {"short": data["short"], "value": 6}


def test_all_is_shown_of_one_as_it_is_raised() -> None:
    text = "x" * 2_000
    said = {"message": text, "runbook": text}
    task = {"params_scheduler": "x" * LARGEST_PARAMS}
    data = {"value": 6, "alert": {**said, "task": task}}

    shown = AlertView.of(RaisedAlert(key="failed", raised_at=NOON, data=data), (), {})

    assert (shown.message, shown.runbook, shown.data) == (text, text, data)
