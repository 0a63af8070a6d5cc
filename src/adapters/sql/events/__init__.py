"""Events and alerts in SQL. Start reading at `outbox`; alerts are in `alerts`."""
