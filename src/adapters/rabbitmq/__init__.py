"""RabbitMQ behind the broker ports: pika for the blocking side, aio-pika for the asynchronous one.

Begin at `topology.declaration` for what is declared, at `publisher.thread` for how 10,000 messages
are confirmed in half a second, at `consumer.subscription` for how a consumer stays alive.
"""
