import pytest

from cronhare.adapters.crontab.reader import Crontab, CrontabKind, guess_kind

USER_TEXT = "MAILTO=ada\n# m h  dom mon dow   command\n0 5 * * * tar -czf home.tgz /home\n"
SYSTEM_TEXT = "0 5 * * * root tar -czf home.tgz /home\n"


@pytest.mark.parametrize("name", ["/etc/crontab", "/etc/cron.d/php", "backup/etc/cron.d/php"])
def test_the_system_places_hold_system_crontabs(name: str) -> None:
    assert guess_kind(name, USER_TEXT) is CrontabKind.SYSTEM


@pytest.mark.parametrize("name", ["/var/spool/cron/crontabs/ada", "/var/spool/cron/ada"])
def test_the_spool_holds_user_crontabs(name: str) -> None:
    assert guess_kind(name, SYSTEM_TEXT) is CrontabKind.USER


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (USER_TEXT, CrontabKind.USER),
        (SYSTEM_TEXT, CrontabKind.SYSTEM),
        ("@daily root run\n17 * * * * www-data run\n", CrontabKind.SYSTEM),
        ("@daily root run\n17 * * * * backup --now\n", CrontabKind.USER),
        ("PATH=/bin\n", CrontabKind.USER),
        ("", CrontabKind.USER),
    ],
)
def test_elsewhere_the_text_decides(text: str, kind: CrontabKind) -> None:
    assert guess_kind("crontab", text) is kind


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [
        ("/var/spool/cron/crontabs/ada", CrontabKind.USER, "ada"),
        ("/home/ada/crontab", CrontabKind.USER, None),
        ("/etc/crontab", CrontabKind.SYSTEM, None),
    ],
)
def test_a_file_of_the_spool_is_named_after_its_owner(
    name: str, kind: CrontabKind, owner: str | None
) -> None:
    assert Crontab(name=name, text="", kind=kind).owner == owner
