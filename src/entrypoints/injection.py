"""dependency-injector, without what it imports for a wiring that we do not use.

It looks whether a web framework is installed by importing it: with the extra `web` that were 0.2 s
of each command. It can read settings from YAML, and ours are no YAML.
"""

import sys

_UNSEEN = ("fastapi.params", "starlette.requests", "werkzeug.local", "yaml")

_hidden = [name for name in _UNSEEN if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]  # None: it is not there
try:
    from dependency_injector import containers, providers
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["containers", "providers"]
