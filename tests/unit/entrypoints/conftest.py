from tests.memory_ledger import memory_ledgers

__all__ = ["memory_ledgers"]
