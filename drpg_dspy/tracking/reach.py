"""Whether anybody is at an address."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request

__all__ = ["answers"]

_SECONDS = 3.0


def answers(uri: str, seconds: float = _SECONDS) -> bool:
    """Tell whether a web server answers at an address, if only with a refusal.

    False when nobody takes the connection, nothing comes within ``seconds``, or a gateway says
    that the server behind it is down. True where it cannot be told (a certificate that only the
    real client is set up for).

    Args:
        uri: ``http://`` or ``https://``; a password in it is not sent.
        seconds: How long to wait.
    """
    address = re.sub(r"//[^/@]*@", "//", uri).rstrip("/")
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=seconds):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError as error:
        return isinstance(getattr(error, "reason", error), ssl.SSLError)
