"""RabbitMQ behind the broker ports: pika publishes and declares, aio-pika consumes.

Begin at `topology` for what is declared, at `publishing` for how 10,000 messages are confirmed in
half a second, at `subscription` for how a consumer stays alive.
"""
