"""The benchmarks: one flat file each."""

from __future__ import annotations
