"""What pika raises when the broker is away, refuses, or has gone meanwhile."""

import re
from typing import Final

from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

#: A broker that takes a connection and then says nothing is told in a class that is no AMQPError.
TROUBLE = (AMQPError, AMQPConnectorException, OSError)

_USER: Final = re.compile(r"user \\?'[^']*'")


def said_by(error: BaseException) -> str:
    """Write an error without the user in it: where passwords are mistyped, it may be one."""
    return _USER.sub("this user", repr(error))
