"""The shop's tasks and schedules: `cronhare up --app shop.jobs:app`, in the folder above."""

from dataclasses import dataclass
from datetime import timedelta

from cronhare import App, Context, PermanentError, Retry, Snooze, cron, every

from .outside import bounced, deliver, limited, renew, users_of

app = App("shop")  # its ledger is that of CRON_DATABASE_URL; nothing connects yet


@dataclass
class Refreshed:
    """What `refresh` has done."""

    tokens: int


@app.task(timeout="5m", retry=Retry(4, first="30s"), executor="fork", memory="512M")
def refresh(ctx: Context, region: str, limit: int = 1000) -> Refreshed:
    """Renew the tokens of all who were active since the last success."""
    since = ctx.previous_success or ctx.due_at - timedelta(days=1)
    done = 0
    for user in users_of(region, since, limit):
        renew(user, idempotency_key=f"{ctx.key}:{user.id}")
        done += 1
        ctx.progress(done / limit, f"user {user.id}")  # the time limit begins anew
    return Refreshed(done)


@app.task(name="mail.send", aliases=["old-mailer"], executor="async", per_child=200)
async def send(ctx: Context, order: int) -> Snooze | None:
    """Send the mail of an order."""
    if await bounced(order):
        raise PermanentError("address refused")
    if await limited():
        return Snooze("30s")  # costs no attempt
    await deliver(order, fence=ctx.fence)
    return None


app.calendar("bank-de", timezone="Europe/Berlin", days={"12-25..12-26": "Christmas"})
app.notify("billing", command=["cat"])  # or webhook, email, …

app.schedule(
    "refresh-eu",
    refresh.bind(region="eu"),
    cron("0 8 * * 1-5", tz="Europe/Berlin", gap="after", fold="first"),
    misfire="once",
    overlap="skip",
    skip_on=["bank-de"],
    expires="2d",
    pause_after=5,
    notify=["billing"],
)
app.schedule("probe", refresh.bind(region="us"), every("30s", jitter="5s"))
