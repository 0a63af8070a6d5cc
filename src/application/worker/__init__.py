"""What a worker does with a delivery: start the attempt, run it, keep its lease, record its end."""
