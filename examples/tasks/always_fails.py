"""Fail on every attempt, for a real reason: nobody listens where the payment gateway should be.

Parameters: `host` and `port`, 127.0.0.1:9 unless given.
"""

import socket
from typing import Any

from cronhare import task

PATIENCE_SECONDS = 2


def main(params: dict[str, Any]) -> None:
    """Try to reach the gateway, and fail with the code of the refusal."""
    host, port = params.get("host", "127.0.0.1"), int(params.get("port", 9))
    gateway = f"the payment gateway at {host}:{port}"
    print(f"settling the day's payments with {gateway}")
    try:
        connection = socket.create_connection((host, port), timeout=PATIENCE_SECONDS)
    except ConnectionRefusedError:
        task.fail(f"{gateway} refused the connection", code="ECONNREFUSED")
    connection.close()
    task.fail(f"{gateway} answers, but takes no payments")


if __name__ == "__main__":
    task.run(main)
