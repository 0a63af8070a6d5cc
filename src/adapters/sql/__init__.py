"""The ledger in SQL. Start reading at `claims`; what differs between databases is a `dialect`."""
