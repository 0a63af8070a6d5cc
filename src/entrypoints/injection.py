"""dependency-injector, without what it imports for wirings and settings that we do not use.

It looks whether a web framework is installed by importing it: with the extra `web` that were 0.2 s
of each command. It can read settings from YAML and from Pydantic (3 MB), and ours are neither.
"""

import sys
from types import SimpleNamespace
from typing import Any, Final

_STAND_INS: Final[dict[str, Any]] = {
    "pydantic_settings": SimpleNamespace(BaseSettings=SimpleNamespace),
    **dict.fromkeys(
        ("fastapi.params", "starlette.requests", "werkzeug.local", "yaml")
    ),  # not there
}

_hidden = _STAND_INS.keys() - sys.modules.keys()
sys.modules.update({name: _STAND_INS[name] for name in _hidden})
try:
    from dependency_injector import containers, providers
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["containers", "providers"]
