"""The outbox in SQL. Start reading at `store`."""
