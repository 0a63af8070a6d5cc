"""The API of the shop."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from cronhare import cron
from shop.jobs import Base, Order, app, confirm, digest, engine

Base.metadata.create_all(engine)
api = FastAPI(lifespan=app.lifespan)  # connects to the ledger at the start, and lets go at the end


def transaction() -> Iterator[Session]:
    """Commit what a request has done; roll it back if it raises."""
    with Session(engine) as session, session.begin():
        yield session


# Of the function, not of the request: nobody is answered before it is committed.
Db = Annotated[Session, Depends(transaction, scope="function")]


class NewOrder(BaseModel):
    """What a customer orders."""

    customer: str = Field(pattern="^[a-z]{1,30}$")
    item: str = Field(max_length=100)


class Digest(BaseModel):
    """When a customer wants the digest."""

    hour: int = Field(ge=0, le=23)
    timezone: str = "Europe/Berlin"


@api.post("/orders", status_code=201)
def place(body: NewOrder, db: Db) -> dict[str, int]:
    """Place an order, and have it confirmed: both are there with the commit, or neither."""
    order = Order(customer=body.customer, item=body.item)
    db.add(order)
    db.flush()
    run = confirm.bind(order=order.id).enqueue(key=f"confirm:{order.id}", on=db)
    if body.item == "nothing":
        raise HTTPException(422, "of that we have none")
    return {"order": order.id, "run": run.id}


@api.get("/orders/{order_id}")
def show(order_id: int, db: Db) -> dict[str, datetime | str | None]:
    """Show an order."""
    if (order := db.get(Order, order_id)) is None:
        raise HTTPException(404, "there is no such order")
    return {"item": order.item, "confirmed_at": order.confirmed_at}


@api.put("/customers/{customer}/digest")
def choose(customer: str, wanted: Digest) -> dict[str, str | None]:
    """Have a schedule for this customer; asked for again it changes, and is never there twice."""
    name, when = f"digest-{customer}", cron(f"0 {wanted.hour} * * *", tz=wanted.timezone)
    app.schedules.put(name, digest.bind(customer=customer), when, overlap="skip")
    found = app.schedules.get(name)
    return {"schedule": found.schedule, "timezone": found.timezone}


@api.delete("/customers/{customer}/digest", status_code=204)
def forget(customer: str) -> None:
    """Delete the schedule of this customer, and what it has run."""
    app.schedules.delete(f"digest-{customer}", with_history=True)
