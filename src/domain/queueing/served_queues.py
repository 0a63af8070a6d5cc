"""The task queues that a process serves, with their weights: `reports:3,mail`."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

import attrs

from ..texts.printable import echo, shown
from ..texts.words import MOST_LISTED, first_faults
from ..topology import checked_queue, checked_queues

#: A queue of weight 3 has three runs begun for one of a queue of weight 1, while both have some.
WEIGHTS: Final = range(1, 101)

DEFAULT_WEIGHT: Final = 1

_WEIGHT: Final = re.compile(r"\d{1,3}", re.ASCII)


@attrs.frozen
class ServedQueues:
    """Task queues in their order, each with its weight.

    >>> ServedQueues.parse(["reports:3", "mail"]).weights
    {'reports': 3, 'mail': 1}
    """

    weights: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """The queues."""
        return tuple(self.weights)

    @property
    def texts(self) -> tuple[str, ...]:
        """Write them as they are read; a weight of 1 goes without saying.

        >>> ServedQueues({"reports": 3, "mail": 1, "at:night": 1}).texts
        ('reports:3', 'mail', 'at:night:1')
        """
        return tuple(
            name if weight == DEFAULT_WEIGHT and ":" not in name else f"{name}:{weight}"
            for name, weight in self.weights.items()
        )

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Read names, each with or without a weight behind a colon; repetitions are left out.

        Raises:
            ValueError: with every fault at once, the first of very many.
        """
        weights, faults = dict[str, int](), list[str]()
        for text in dict.fromkeys(texts):
            try:
                name, weight = _parse(text)
            except ValueError as error:
                faults.append(str(error))
                continue
            if weights.setdefault(name, weight) != weight:
                faults.append(f"{shown(name)} has two weights, {weights[name]} and {weight}")
        try:
            checked_queues(weights)
        except ValueError as error:
            faults.append(str(error))
        if faults:
            raise ValueError("; ".join(first_faults(faults, MOST_LISTED, as_fault=str)))
        return cls(weights)

    def of(self, queues: Iterable[str]) -> Mapping[str, int]:
        """Give the weights of other queues, 1 for those that are not named here."""
        return {name: self.weights.get(name, DEFAULT_WEIGHT) for name in queues}


def _parse(text: str) -> tuple[str, int]:
    name, colon, weight = text.rpartition(":")
    if not colon:
        return checked_queue(text), DEFAULT_WEIGHT
    if not _WEIGHT.fullmatch(weight) or int(weight) not in WEIGHTS:
        raise ValueError(
            f"{echo(text)}: behind its last colon a queue has its weight, a whole number from "
            f"{WEIGHTS[0]} to {WEIGHTS[-1]}"
        )
    return checked_queue(name), int(weight)
