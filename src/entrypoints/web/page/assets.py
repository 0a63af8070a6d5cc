"""The files of the page: style, scripts, pictures. Their address has a hash of all they hold."""

from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

import attrs
from starlette.requests import Request
from starlette.responses import Response

_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

#: What is at an address never changes.
_FAR: Final = "public, max-age=31536000, immutable"


@attrs.frozen
class Assets:
    """All files, held in memory; scripts import each other by their plain names."""

    files: Mapping[str, bytes]
    digest: str

    @classmethod
    def read(cls) -> Self:
        """Read them."""
        found = {
            path.name: path.read_bytes()
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _KINDS
        }
        whole = sha256()
        for name, content in found.items():
            whole.update(f"{name} {len(content)} ".encode() + content)
        return cls(found, whole.hexdigest()[:12])

    def address(self, name: str) -> str:
        """Give the address of a file.

        Raises:
            KeyError: there is none of that name.
        """
        if name not in self.files:
            raise KeyError(name)
        return f"/ui/static/{self.digest}/{name}"

    async def answer(self, request: Request) -> Response:
        """Answer a file; one of another release is not here."""
        digest, _, name = request.path_params["rest"].partition("/")
        content = self.files.get(name)
        if digest != self.digest or content is None:
            return Response("there is no such file\n", HTTPStatus.NOT_FOUND)
        kind = _KINDS[Path(name).suffix]
        return Response(content, media_type=kind, headers={"Cache-Control": _FAR})
