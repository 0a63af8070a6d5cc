"""A little SMTP server: it keeps each mail that it takes, as RFC 5321 has it."""

import email
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import default

import attrs


@attrs.define
class MailBox:
    """The mails that a server took, and their *recipients*.

    While *refuses* is set it says that to each recipient; of *refusals*, to one of them. After a
    421 it hangs up.
    """

    port: int
    refuses: str | None = None
    refusals: dict[str, str] = attrs.field(factory=dict)
    mails: list[EmailMessage] = attrs.field(factory=list)
    recipients: list[str] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        """The server's address, as a setting."""
        return f"smtp://localhost:{self.port}"


class _Conversation(socketserver.StreamRequestHandler):
    box: MailBox

    def handle(self) -> None:
        self._recipients = list[str]()
        self._say("220 here")
        while line := self.rfile.readline():
            match line.split(maxsplit=1)[0].upper():
                case b"EHLO" | b"HELO":
                    self._say("250 here")
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
def mail_server() -> Iterator[MailBox]:
    """Serve mail on a free port of this host."""
    handler = type("Conversation", (_Conversation,), {})
    with socketserver.ThreadingTCPServer(("localhost", 0), handler) as server:
        box = MailBox(port=server.server_address[1])
        handler.box = box  # type: ignore[attr-defined]
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
