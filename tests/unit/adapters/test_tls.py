"""Certificate files are what somebody wrote into a URL."""

from pathlib import Path

import pytest

from cronhare.adapters import tls
from cronhare.adapters.addresses import Certificates

OPTIONS = ("cafile", "certfile", "keyfile")


@pytest.mark.parametrize("content", ["", "\n", "\N{LATIN SMALL LETTER E WITH ACUTE}", "no PEM"])
def test_a_ca_file_without_a_certificate_never_means_the_systems_own(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "ca.pem").write_text(content)

    with pytest.raises(tls.CertificatesUnusable, match=r"cafile .* cannot be read as PEM: "):
        tls.client_context(Certificates(options=OPTIONS, ca=str(tmp_path / "ca.pem")))
