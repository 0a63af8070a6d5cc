"""Certificate files are what somebody wrote into a URL."""

import ssl
from pathlib import Path

import pytest

from cronhare.adapters import tls
from cronhare.adapters.addresses import Certificates

CA = """\
-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIUe0aXpRZQdsvgtAXtcvxFA3ZxBOQwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAeFw0yNjExMjIwOTM2MDlaFw0zNjExMTkwOTM2MDlaMAwx
CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR8YEQRPH9TfLg7
NoV+cVqfyeDISZwq0LHSnqH2BrMf4CjzB5j1/FtEMzfuORtpz9h48CsccwTU7hNK
7eAumCo/o1MwUTAdBgNVHQ4EFgQUM6v2lsZdAdMOXZASa3Qu4E4QwgAwHwYDVR0j
BBgwFoAUM6v2lsZdAdMOXZASa3Qu4E4QwgAwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiBvRqEGQJ3aPTY6tonywRscnTtMIUHJm4yP+kn1s6ptPwIh
ANPkPxBi2iQ6qVnj4v2qM5caz64LVqqwMh948gSIAJvS
-----END CERTIFICATE-----
"""

OPTIONS = ("cafile", "certfile", "keyfile")


@pytest.mark.parametrize("content", ["", "\n", "\N{LATIN SMALL LETTER E WITH ACUTE}", "no PEM"])
def test_a_ca_file_without_a_certificate_never_means_the_systems_own(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "ca.pem").write_text(content)

    with pytest.raises(tls.CertificatesUnusable, match=r"cafile .* cannot be read as PEM: "):
        tls.client_context(Certificates(options=OPTIONS, ca=str(tmp_path / "ca.pem")))


def test_what_stands_between_certificates_may_be_in_any_script(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(f"# Főtanúsítvány\n{CA}", encoding="utf-8")

    context = tls.client_context(Certificates(options=OPTIONS, ca=str(tmp_path / "ca.pem")))

    [trusted] = context.get_ca_certs(binary_form=True)
    assert trusted == ssl.PEM_cert_to_DER_cert(CA)
