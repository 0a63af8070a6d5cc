"""A ledger in memory, for tests on a frozen clock: the fake beside the real ones."""
