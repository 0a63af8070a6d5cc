"""A little SMTP server: it keeps each mail that it takes, as RFC 5321 has it."""

import email
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from email.policy import default

import attrs


@attrs.define
class MailBox:
    """The mails that a server took, and their *recipients*.

    While *refuses* is set it says that to each recipient; of *refusals*, to one of them. After a
    421 it hangs up. *endless* is said in answer to MAIL for ever, so many seconds apart.
    """

    port: int
    scheme: str = "smtp"
    tls: ssl.SSLContext | None = None
    refuses: str | None = None
    refusals: dict[str, str] = attrs.field(factory=dict)
    endless: tuple[str, float] | None = None
    were_left: threading.Event = attrs.field(factory=threading.Event)
    mails: list[EmailMessage] = attrs.field(factory=list)
    recipients: list[str] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"


class _Conversation(socketserver.StreamRequestHandler):
    box: MailBox

    def handle(self) -> None:
        self._recipients = list[str]()
        if self.box.scheme == "smtps":
            self._secure()
        self._say("220 here")
        while line := self.rfile.readline():
            match line.split(maxsplit=1)[0].upper():
                case b"EHLO" | b"HELO":
                    self._say("250 here" if self.box.tls is None else "250-here\r\n250 STARTTLS")
                case b"STARTTLS":
                    self._say("220 go on")
                    self._secure()
                case b"MAIL" if self.box.endless is not None:
                    self._say_for_ever(*self.box.endless)
                    return
                case b"RCPT":
                    if self._receive(line.decode().partition(":")[2].strip(" <>\r\n")) == 421:
                        return
                case b"DATA":
                    self._say("354 go on")
                    self._take()
                case b"QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 fine")

    def _secure(self) -> None:
        assert self.box.tls is not None
        self.request = self.box.tls.wrap_socket(self.request, server_side=True)
        self.setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()  # what was put in TLS is not what the server knows of

    def _say_for_ever(self, text: str, seconds: float) -> None:
        with suppress(OSError):
            while True:
                self._say(text)
                time.sleep(seconds)
        self.box.were_left.set()

    def _receive(self, recipient: str) -> int:
        answer = self.box.refuses or self.box.refusals.get(recipient) or "250 taken"
        if answer.startswith("2"):
            self._recipients.append(recipient)
        self._say(answer)
        return int(answer[:3])

    def _take(self) -> None:
        lines = list(iter(self.rfile.readline, b".\r\n"))
        content = b"".join(line.removeprefix(b".") if line[:2] == b".." else line for line in lines)
        mail = email.message_from_bytes(content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.box.mails.append(mail)
        self.box.recipients += self._recipients
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server(*, scheme: str = "smtp", tls: ssl.SSLContext | None = None) -> Iterator[MailBox]:
    """Serve mail on a free port of this host. With *tls* it has STARTTLS, or is TLS: `smtps`."""
    handler = type("Conversation", (_Conversation,), {})
    with socketserver.ThreadingTCPServer(("localhost", 0), handler) as server:
        box = MailBox(port=server.server_address[1], scheme=scheme, tls=tls)
        handler.box = box  # type: ignore[attr-defined]
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
