"""What the use cases need from outside, as Protocols whose docstrings are promises.

What the contract suites in tests/integration do not assert is not promised. Every method of a
ledger's port may raise `LedgerUnavailable`; the call can then be repeated, unless it says
otherwise. Stores are safe to share between threads, processes and hosts; times are aware, in UTC.
"""
