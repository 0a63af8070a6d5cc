import socket
from ipaddress import ip_address

from cronhare.adapters.addresses import ListenAddress
from cronhare.entrypoints.web.server import bind


def test_small_answers_wait_for_no_acknowledgement() -> None:
    with bind(ListenAddress(ip_address("127.0.0.1"), 0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY for nothing else"
