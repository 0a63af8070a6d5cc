"""PEM files by which a server is verified, and by which it verifies us."""

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Certificates:
    """The paths that a URL names: of a CA, of our certificate, and of its key.

    *options* are the URL's own names of the three, for whoever has to say what is wrong.
    """

    options: tuple[str, str, str]
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, said: Mapping[str, str], options: tuple[str, str, str]) -> "Certificates":
        """Take from a URL's options those that name certificates.

        Raises:
            ValueError: a certificate without its key, or a key alone.
        """
        ca, certificate, key = map(said.get, options)
        if (certificate is None) != (key is None):
            _, one, other = options
            raise ValueError(
                f"{one} and {other} are given together, or neither; one file may have both"
            )
        return cls(options=options, ca=ca, certificate=certificate, key=key)

    def refuse(self, where: str) -> None:
        """Refuse certificates where nothing is verified.

        Raises:
            ValueError: some are named.
        """
        if self.named:
            *some, last = self.options
            raise ValueError(
                f"{where} has no use for {', '.join(some)} or {last}: take one of them away"
            )

    @property
    def named(self) -> bool:
        """Whether there is any."""
        return self.ca is not None or self.certificate is not None
