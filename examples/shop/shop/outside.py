"""Stands in for the shop's database, and for the services that it calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

#: What `renew` and `deliver` were called with.
renewed: list[str] = []
delivered: list[tuple[int, int]] = []

#: Orders whose address refuses mail.
refusing: set[int] = set()

#: How often the mail server is still to say that it has enough.
busy: list[None] = []


@dataclass
class User:
    """Somebody whose token is to be renewed."""

    id: int


def users_of(region: str, since: datetime, limit: int) -> Iterator[User]:
    """Give those of a region who were active since then."""
    print(f"users of {region} since {since:%Y-%m-%d %H:%M}")
    return (User(number) for number in range(min(limit, 3)))


def renew(user: User, *, idempotency_key: str) -> None:
    """Renew a token; with the same key it is done once."""
    renewed.append(f"{user.id} {idempotency_key}")


async def bounced(order: int) -> bool:
    """Tell whether an order's address refuses mail."""
    return order in refusing


async def limited() -> bool:
    """Tell whether the mail server has enough for now."""
    return bool(busy and [busy.pop()])


async def deliver(order: int, *, fence: int) -> None:
    """Send a mail, unless a later attempt has sent it: the larger fence counts."""
    delivered.append((order, fence))
