"""Whose a schedule is: three columns of the users' table (S1.3 in docs/compatibility.md)."""

import re
from typing import Final, Self

import msgspec

#: Each in decimal, or empty where the row has none.
_WRITTEN: Final = re.compile(r"(-?\d{1,19})?,(-?\d{1,19})?,(-?\d{1,19})?")


class ScheduleOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a schedule, for which group, and in which language it is to run.

    To cronhare these are numbers of somebody else: it hands them to the tasks.
    """

    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None

    @classmethod
    def read(cls, text: object) -> Self:
        """Read the three numbers out of one text; what is no number counts as missing.

        >>> ScheduleOwner.read("7,,3")
        ScheduleOwner(user_id=7, group_id=None, language_id=3)
        >>> ScheduleOwner.read("7,root,3") == ScheduleOwner.read(None) == ScheduleOwner()
        True
        """
        found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            return NOBODY  # type: ignore[return-value]
        numbers = (None if each is None else int(each) for each in found.groups())
        return cls(**dict(zip(OWNER_FIELDS, numbers, strict=True)))


#: The fields of an owner, and their columns.
OWNER_FIELDS: Final = ScheduleOwner.__struct_fields__

#: The owner of most schedules.
NOBODY: Final = ScheduleOwner()
