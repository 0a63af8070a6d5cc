"""The tables of the shop and its tasks, which workers import without the API.

They share a database with the ledger: an order and the run that confirms it are one commit.
"""

import os
from datetime import UTC, datetime

from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from cronhare import App, Context, PermanentError, Retry

URL = os.environ.get("CRON_DATABASE_URL", "sqlite:///cronhare.sqlite3")

app = App("shop", ledger=URL)
engine = create_engine(URL)  # it connects in each child when it is used, and not here


class Base(DeclarativeBase):
    """The shop's own tables."""


class Order(Base):
    """What a customer has ordered."""

    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    item: Mapped[str]
    confirmed_at: Mapped[datetime | None]


@app.task(timeout="1m", retry=Retry(4, first="30s"))
def confirm(order: int) -> str:
    """Confirm an order. What it does twice, as the attempt before was killed, has no effect."""
    with Session(engine) as session, session.begin():
        found = session.get(Order, order)
        if found is None:
            raise PermanentError(f"there is no order {order}")
        found.confirmed_at = found.confirmed_at or datetime.now(UTC)
        return f"{found.customer}: your {found.item} is on its way"


@app.task
def digest(ctx: Context, customer: str) -> int:
    """Count a customer's orders, each day at the time that the customer wants."""
    with Session(engine) as session:
        orders = select(func.count()).select_from(Order).where(Order.customer == customer)
        count = session.scalar(orders) or 0
    ctx.log.info("%s has %d orders as of %s", customer, count, ctx.due_at)
    return count
