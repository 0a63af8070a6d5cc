"""taskiq over aio-pika, and its scheduler with as many schedules as `PEER_SCHEDULES` says.

Every tenth is due at minute `PEER_MINUTE` of each hour, the others at another.
"""

import asyncio
import os
import sys
import time

from marks import mark, run_true
from taskiq import ScheduledTask, ScheduleSource, TaskiqScheduler
from taskiq_aio_pika import AioPikaBroker

broker = AioPikaBroker(os.environ["PEER_BROKER"], qos=64)


@broker.task(task_name="nothing")
async def nothing(sent: int) -> None:
    mark(sent)


@broker.task(task_name="command")
def command(sent: int) -> None:
    run_true(sent)


class Schedules(ScheduleSource):
    """Gives all schedules at each look."""

    async def get_schedules(self) -> list[ScheduledTask]:
        count, minute = int(os.environ["PEER_SCHEDULES"]), int(os.environ["PEER_MINUTE"])
        return [
            ScheduledTask(
                task_name="nothing",
                labels={},
                args=[0],
                kwargs={},
                schedule_id=str(number),
                cron=f"{minute if number % 10 == 0 else (minute + 30) % 60} * * * *",
            )
            for number in range(count)
        ]


scheduler = TaskiqScheduler(broker, [Schedules()])


async def _send(what: str, count: int, pause: float) -> None:
    await broker.startup()
    task = {"nothing": nothing, "command": command}[what]
    for _ in range(count):
        await task.kiq(time.monotonic_ns() if pause else 0)
        await asyncio.sleep(pause)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(_send(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
