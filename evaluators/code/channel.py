"""Messages between processes: a JSON header and binary parts, over a stream socket."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["Closed", "TooLarge", "receive", "send"]

_HEADER_BYTES = 16 << 20


class Closed(Exception):
    """The other side is gone."""


class TooLarge(Exception):
    """A message exceeds its limit."""


def send(channel: socket.socket, header: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
    """Send a message.

    Raises:
        Closed: Nobody is there to receive it.
    """
    text = json.dumps({**header, "sizes": [len(part) for part in parts]}).encode("ascii")
    try:
        channel.sendall(struct.pack("!Q", len(text)) + text)
        for part in parts:
            channel.sendall(part)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


def receive(channel: socket.socket, most: int) -> tuple[dict[str, Any], list[bytes]]:
    """Receive a message.

    Args:
        channel: The socket.
        most: Bytes that its parts may have together.

    Raises:
        Closed: The other side ended before the message did.
        TooLarge: It is larger.
        ValueError: It is no message.
    """
    (length,) = struct.unpack("!Q", _read(channel, 8))
    if length > _HEADER_BYTES:
        raise TooLarge(f"a header of {length} bytes")
    header = json.loads(_read(channel, length))
    if not isinstance(header, dict) or not isinstance(header.get("sizes"), list):
        raise ValueError("no message")
    sizes = header.pop("sizes")
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("no message")
    if sum(sizes) > most:
        raise TooLarge(f"{sum(sizes)} bytes, of which {most} are allowed")
    return header, [_read(channel, size) for size in sizes]


def _read(channel: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        try:
            part = channel.recv(min(size, 1 << 20))
        except ConnectionResetError as error:
            raise Closed from error
        if not part:
            raise Closed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
