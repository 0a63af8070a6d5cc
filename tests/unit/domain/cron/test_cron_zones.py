import pytest

from cronhare.domain.cron import UnknownZone, find_zone


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+5"])
def test_a_zone_is_found_by_its_name(name: str) -> None:
    assert find_zone(name).key == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("europe/berlin", "did you mean Europe/Berlin"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("Local", "it would differ from node to node"),
        ("localtime", "it would differ from node to node"),
        ("posixrules", "it would differ from node to node"),
        ("right/Europe/Berlin", "it would differ from node to node"),
        ("+02:00", "an offset is not a zone"),
        ("UTC+2", "an offset is not a zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        find_zone(name)

    assert caught.value.hint.startswith(hint)
    assert str(caught.value).startswith(f'unknown zone "{name}" (')


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../../etc/passwd", "Europe", "Europe/", "zone.tab", "Europe/Berlin\n",
     "Europe/Berlin\0", "x" * 10_000, "\u0395urope/Berlin", "-", "a//b"],
)  # fmt: skip
def test_what_is_no_name_is_refused_without_touching_it(name: str) -> None:
    with pytest.raises(UnknownZone):
        find_zone(name)
