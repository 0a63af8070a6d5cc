"""Certificates for servers that the tests start."""

import subprocess
from pathlib import Path

import attrs

from tests.services.finding import binary, missing

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@attrs.frozen
class Certified:
    """A CA, and a server's certificate that it signed with its key, in PEM files."""

    ca: Path
    certificate: Path
    key: Path


def certified(folder: Path, *names: str) -> Certified:
    """Make a CA of its own, and have it sign a server's certificate for *names* (`DNS:…`, `IP:…`).

    Nobody trusts the CA unless it is named.
    """
    if binary("openssl") is None:
        missing("openssl", "apt-get install openssl")
    folder.mkdir(parents=True, exist_ok=True)
    ca, ca_key, key, certificate = (
        folder / name for name in ("ca", "ca-key", "key", "certificate")
    )
    request, extensions = folder / "request", folder / "extensions"
    extensions.write_text(f"subjectAltName={','.join(names)}\n")
    _openssl("req", "-x509", *_EC, "-subj", "/CN=tests", "-keyout", ca_key, "-out", ca)
    _openssl("req", *_EC[:-2], "-subj", "/CN=server", "-keyout", key, "-out", request)
    signing = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", extensions)
    _openssl("x509", "-req", "-in", request, *signing, "-out", certificate)
    return Certified(ca=ca, certificate=certificate, key=key)


def _openssl(*arguments: str | Path) -> None:
    command = [str(binary("openssl")), *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
