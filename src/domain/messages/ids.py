"""The numbers of rows, as messages and commands name them."""

from typing import Final

#: A larger number fits no column of the ledger.
LARGEST_ID: Final = 2**63 - 1
