"""A broker in memory, with the manners of RabbitMQ. It ships: `cronhare up` runs on it."""
