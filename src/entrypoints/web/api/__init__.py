"""The HTTP API: each operation is one use case of `application/administration`.

Start reading at `application`: it lists them. `operations` says how one is declared.
"""
