"""What a worker does with a delivery: start, run, finish, and keep its lease."""
