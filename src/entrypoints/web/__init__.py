"""The HTTP API: the use cases of `application/administration`, asked over HTTP.

Start reading at `application`. It needs the extra `web`; only `cronhare web` imports it.
"""
