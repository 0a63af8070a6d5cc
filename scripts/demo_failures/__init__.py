"""What becomes of all that can go wrong with a task, shown on `cronhare up`: `make demo-failures`.

The jobs file and the settings are in `examples/failures`. All is done by commands that a person
types, and what came of each step is verified: the exit status is 1 if it did not happen.
"""
