"""Over HTTP: the use cases of `application/administration`, asked by programs and by people.

Start reading at `application`. It needs the extra `web`.
"""
