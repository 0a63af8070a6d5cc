"""How many seconds each step of a shutdown may take (ADR 16).

`FAREWELL` < `DISCONNECTING` < `CLOSING`: a broker that does not answer is hung up on before the
adapter gives its closing up, and that before the process does. Who is cut off by another leaves
connections behind, for whose answers the process would wait at its very end. `PAUSING`,
`INTERRUPTING` and `CLOSING` follow each other, within `ENDING`.
"""

from typing import Final

#: The broker, to send nothing more.
PAUSING: Final = 1.5

#: Interrupted tasks, to end (5 from TERM to KILL) and to be recorded.
INTERRUPTING: Final = 8.5

#: The broker's answer to the farewell of one connection; then it is hung up on.
FAREWELL: Final = 1.5

#: All connections of one adapter to the broker, which are closed beside each other.
DISCONNECTING: Final = 2.0

#: All that a process closes, beside each other: connections, loops, what ends tasks.
CLOSING: Final = 3.0

#: A worker's shutdown beside its grace. A service manager may wait 15.
ENDING: Final = 14.0
