"""Programs that use the library, each a file to copy from."""

from __future__ import annotations
