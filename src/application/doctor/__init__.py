"""What `cronhare doctor` finds: tables of rules over what the servers, settings and files show.

To add a finding, write one rule beside its kin; `finding` says what a rule is.
"""
