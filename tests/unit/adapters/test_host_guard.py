"""What keeps a child from other hosts, judged event by event as Python's audit hooks have them."""

import pytest

from cronhare.adapters.notify.host_guard import HostGuard, HostRefused
from cronhare.domain.addresses import AllowedHosts


@pytest.mark.parametrize(
    ("event", "args"),
    [
        ("socket.connect", (None, ("127.0.0.1", 80))),
        ("socket.connect", (None, ("::1", 80, 0, 0))),
        ("socket.connect", (None, ("::ffff:10.0.0.1", 80))),
        ("socket.connect", (None, ("169.254.169.254", 80))),
        ("socket.connect", (None, ("hooks.example.org", 80))),  # looked up by nobody
        ("socket.connect", (None, "/run/dbus/system_bus_socket")),
        ("socket.connect", (None, b"\0abstract")),
        ("socket.sendto", (None, ("10.0.0.1", 514))),
        ("socket.getaddrinfo", ("127.1", 80, 0, 0, 0)),
        ("socket.getaddrinfo", (b"127.0.0.1", 80, 0, 0, 0)),
        ("subprocess.Popen", ("sh", [], None, None)),
        ("os.system", (b"true",)),
        ("os.fork", ()),
    ],
)
def test_what_leads_inside_is_refused(event: str, args: tuple[object, ...]) -> None:
    guard = HostGuard(AllowedHosts())

    if event == "socket.getaddrinfo" and args[0] == "127.1":
        guard._judge(event, args)  # a name: its address is judged when it is asked
        event, args = "socket.connect", (None, ("127.0.0.1", 80))
    with pytest.raises(HostRefused):
        guard._judge(event, args)

    assert [*guard.refusals.values()]


def test_only_names_that_are_allowed_are_looked_up_and_asked_at_public_addresses() -> None:
    guard = HostGuard(AllowedHosts.parse(["*.example.org", "10.1.0.0/16"]))

    guard._judge("socket.getaddrinfo", ("Hooks.Example.ORG.", 443, 0, 0, 0))
    guard._judge("socket.connect", (None, ("93.184.215.14", 443)))
    guard._judge("socket.connect", (None, ("10.1.2.3", 443)))
    guard._judge("socket.getaddrinfo", (None, 80, 0, 0, 0))
    guard._judge("open", ("/etc/passwd", "r", 0))
    for host in ("93.184.215.14", "10.2.0.1"):
        other = HostGuard(AllowedHosts.parse(["*.example.org", "10.1.0.0/16"]))
        with pytest.raises(HostRefused):
            other._judge("socket.connect", (None, (host, 443)))
    with pytest.raises(HostRefused):
        HostGuard(AllowedHosts.parse(["a.example"]))._judge("socket.getaddrinfo", ("b.example",))
