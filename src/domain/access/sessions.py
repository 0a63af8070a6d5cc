"""Sessions of the page: what a browser has in place of a token, once somebody has signed in.

Its cookie is a secret of its own, with as many random bits as a token: a browser never keeps the
token. It ends with the token, with a sign-out, or after a day's work.
"""

from datetime import datetime, timedelta
from typing import Final

import attrs

#: A session ends so long after it began, used or not.
LONGEST_SESSION: Final = timedelta(hours=12)


@attrs.frozen(kw_only=True)
class Session:
    """A sign-in with a token; *digest* is of its cookie, *token* the name of the token."""

    digest: str = attrs.field(repr=False)
    token: str
    token_digest: str = attrs.field(repr=False)
    created_at: datetime
    expires_at: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether it has ended by itself."""
        return self.expires_at <= now


def local_path(text: str) -> str:
    """Give where a browser goes on to after it has signed in: a path of this site, or the first.

    >>> local_path("/ui/failed?limit=5"), local_path("//evil.example"), local_path("https://x.y")
    ('/ui/failed?limit=5', '/', '/')
    >>> local_path("/ui/sign-in"), local_path(chr(92) + "evil"), local_path("/a" + chr(10))
    ('/', '/', '/')
    """
    fits = len(text) <= LONGEST_PATH and text.isascii() and text.isprintable()
    is_local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    returns = text.startswith(("/ui/sign-in", "/ui/sign-out", "/ui/live"))
    return text if fits and is_local and not returns else "/"


LONGEST_PATH: Final = 2_048
