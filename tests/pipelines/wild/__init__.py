"""Twelve DSPy pipelines as people write them; none of them knows this library."""

from __future__ import annotations
