"""What a server of MySQL's protocol says, for those who only pretend to be one."""

import struct
from typing import Final

OK: Final = bytes(7)


def packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number & 255]) + payload


def greeting(plugin: bytes, *, tls: bool = False) -> bytes:
    salt, able = b"a" * 20, 0xF7FF | 0x800 if tls else 0xF7FF & ~0x800
    head = b"\x0a8.0.36\0" + struct.pack("<I", 7) + salt[:8] + b"\0"
    middle = struct.pack("<HBHHB", able, 33, 2, 0x00FF, 21) + bytes(10)
    return packet(0, head + middle + salt[8:] + b"\0" + plugin + b"\0")
