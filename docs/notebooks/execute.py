"""Runs the notebooks from top to bottom and keeps what they print.

    python docs/notebooks/execute.py            # all of them; make notebooks
    python docs/notebooks/execute.py 01 07      # those whose names begin so
    DRPG_NOTEBOOK_LM=openai/gpt-4.1-mini python docs/notebooks/execute.py 06

Each notebook gets a fresh kernel and an empty folder to work in, as a reader's would be. It is
written back only when every cell ran. What differs from machine to machine is taken out
(:func:`tidied`), so that running again changes only what the model said. The default model
answers all of them in about half an hour on two cores; ``notebook_lm.py`` says how to name
another.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
SHOWN = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
MADE = "drpg"
"""Key of a notebook's metadata: which model its outputs are from, and which code."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/[^/\s'\"]+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def notebooks(beginnings: list[str]) -> list[Path]:
    """Return the notebooks whose names begin with one of the given texts; all without any.

    Raises:
        SystemExit: One of them is the beginning of none.
    """
    found = sorted(HERE.glob("*.ipynb"))
    for text in beginnings:
        if not any(path.name.startswith(text) for path in found):
            names = ", ".join(path.stem for path in found)
            raise SystemExit(f"No notebook is called {text!r}…; there are {names}.")
    return [path for path in found if not beginnings or path.name.startswith(tuple(beginnings))]


def kernel(folder: Path, environment: Mapping[str, str]) -> KernelManager:
    """Start a kernel that works in a folder and finds ``notebook_lm``."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(
        cwd=str(folder),
        env={**environment, "PYTHONPATH": str(HERE)},
        extra_arguments=["--log-level=ERROR"],
    )
    return manager


def run(
    path: Path,
    manager: KernelManager,
    folder: Path,
    *,
    first: str = "",
    seconds: int | None = None,
) -> Any:
    """Return a notebook with the outputs of running it.

    Args:
        path: The notebook, which is not changed.
        manager: Of the kernel that runs it; it goes on afterwards.
        folder: Where the kernel works.
        first: Code to run before the first cell.
        seconds: Limit for one cell; ``None`` = a model may take its time.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed; the message shows it.
    """
    notebook = nbformat.read(path, as_version=4)
    cells = notebook.cells
    notebook.cells = [nbformat.v4.new_code_cell(first), *cells] if first else cells
    NotebookClient(notebook, km=manager, timeout=seconds).execute()
    notebook.cells = cells
    return tidied(notebook, folder)


def tidied(notebook: Any, folder: Path) -> Any:
    """Return a notebook without what only its run or this machine has.

    Gone are cell times and other metadata, what was written to the error stream (progress bars,
    log lines), colours, memory addresses, and the paths of this machine.
    """
    made = {MADE: notebook.metadata[MADE]} if MADE in notebook.metadata else {}
    notebook.metadata = nbformat.from_dict({**SHOWN, **made})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            outputs = _joined([o for o in cell.outputs if o.get("name") != "stderr"])
            cell.outputs = [_tidied_output(output, folder) for output in outputs]
    nbformat.validate(notebook)
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Join what was printed in one go and came in pieces."""
    joined: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _tidied_output(output: Any, folder: Path) -> Any:
    if "text" in output:
        output.text = _tidied_text(output.text, folder)
    if "data" in output:
        output.metadata = nbformat.from_dict({})
        plain = {kind: value for kind, value in output.data.items() if kind.startswith("text/")}
        output.data = nbformat.from_dict(
            {kind: _tidied_text(value, folder) for kind, value in plain.items()}
        )
    return output


def _tidied_text(text: str, folder: Path) -> str:
    places = {folder: ".", HERE.parents[1]: "drpg-dspy", Path.home(): "~"}
    for place, shown in places.items():
        text = text.replace(str(place), shown)
    text = _TEMPORARY.sub("…", text)
    return _ADDRESS.sub("0x…", _COLOURS.sub("", text))


def code_digest(notebook: Any) -> str:
    """Return a short hash of a notebook's code: it changes when outputs may no longer be true."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:16]


def main(beginnings: list[str]) -> None:
    """Run notebooks one after another and write them back."""
    for path in notebooks(beginnings):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="notebook-", ignore_cleanup_errors=True) as place:
            manager = kernel(Path(place), os.environ)
            try:
                notebook = run(path, manager, Path(place))
            finally:
                manager.shutdown_kernel(now=True)
        lm = os.environ.get("DRPG_NOTEBOOK_LM", "local/qwen2.5-coder-1.5b")
        notebook.metadata[MADE] = {"lm": lm, "code": code_digest(notebook)}
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(f"{path.name}: {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
