"""What pika raises when the broker is away, refuses, or has gone meanwhile."""

from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

#: A broker that takes a connection and then says nothing is told in a class that is no AMQPError.
TROUBLE = (AMQPError, AMQPConnectorException, OSError)
