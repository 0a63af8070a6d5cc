"""What can be wrong with the servers, the ledger and the settings, and what mends it.

Facts come from adapters as plain values; the judgement is here. Start reading at `finding`.
"""
