"""The judges: pure, no LM unless the name says so."""

from __future__ import annotations
