import pytest

from cronhare.adapters.crontab.carrier import describe
from cronhare.adapters.crontab.reader import CrontabKind, Entry, read_crontab


def describe_entry(text: str) -> str | None:
    *_, entry = read_crontab(text, CrontabKind.USER)
    assert isinstance(entry, Entry)
    return describe(entry.comment)


def test_the_lines_of_a_comment_become_one_paragraph() -> None:
    text = "# Rotate the statistics,\n# once a day:\n@daily rotate\n"

    assert describe_entry(text) == "Rotate the statistics, once a day"


@pytest.mark.parametrize(
    "comment",
    [
        "# m h  dom mon dow   command",
        "# m h dom mon dow user  command",
        "# minute hour day month weekday command",
        "# .---------------- minute (0 - 59)\n# |  .------------- hour (0 - 23)\n# |  |  |  |  |",
        "# *  *  *  *  * user-name command to be executed",
        "# ┌───────── minute\n# │ ┌─────── hour\n# * * * * *",
        "#-------------\n#############\n#",
    ],
)
def test_what_does_not_speak_of_the_entry_is_no_description(comment: str) -> None:
    assert describe_entry(f"{comment}\n@daily run\n") is None


def test_what_stands_above_the_column_titles_explains_the_file() -> None:
    text = (
        "# Edit this file to introduce tasks\n#\n# m h dom mon dow command\n# Tidy up\n@daily run\n"
    )

    assert describe_entry(text) == "Tidy up"


@pytest.mark.parametrize("sentence", ["- keep it short", "* keep it short", "My house is yours"])
def test_a_comment_that_only_resembles_a_picture_is_kept(sentence: str) -> None:
    assert describe_entry(f"# {sentence}\n@daily run\n") == sentence
