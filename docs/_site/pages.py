"""Pages of the site that are no files below docs/, and links to them.

A page of documentation is read on a Git host and on the site. Its links are written for the
first: relative to the file, also to files outside docs/ and to notebooks. For the second, what
they lead to becomes a page too: README.md is the front page, a notebook is shown with its outputs,
and any other file of the repository is shown as it is.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"
LINK = re.compile(r"(?P<text>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".json": "json", ".sh": "bash"}

# Where the text of a page comes from, below the repository; by its place on the site.
_origins: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let a pattern in the navigation stand for the notebooks that there are."""
    config.nav = _expanded(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for the README, for every notebook, and for whatever pages link to."""
    _origins.clear()
    for file in files.documentation_pages():
        _origins[file.src_uri] = f"{DOCS}/{file.src_uri}"
    waiting = ["README.md", *(path.as_posix() for path in _notebooks())]
    waiting += [
        origin
        for place in list(_origins)
        for origin in _outside((ROOT / _origins[place]).read_text(encoding="utf-8"), place)
    ]
    while waiting:
        origin = waiting.pop()
        place = place_of(origin)
        if place in _origins:
            continue
        _origins[place] = origin
        text = page_of(ROOT / origin)
        files.append(File.generated(config, place, content=text))
        if origin.endswith((".md", ".ipynb")):
            waiting += _outside(text, place)
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Point the links of a page to where their targets stand on the site."""
    here = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        origin = origin_of(match["target"], here)
        if origin is None:
            return match[0]
        target = posixpath.relpath(place_of(origin), posixpath.dirname(here) or ".")
        return f"{match['text']}{target}{match['anchor'] or ''})"

    return _outside_fences(markdown, lambda text: LINK.sub(moved, text))


def origin_of(target: str, place: str) -> str | None:
    """Return what a link leads to, as a path below the repository.

    Args:
        target: The link as it is written, without its anchor.
        place: The page on the site that holds it.

    Returns:
        ``None`` for a web address, and for what is not there: MkDocs then complains.
    """
    if re.match(r"[a-z][a-z0-9+.-]*:|/", target):
        return None
    origin = posixpath.normpath(posixpath.join(posixpath.dirname(_origins[place]), unquote(target)))
    return origin if not origin.startswith("..") and (ROOT / origin).exists() else None


def place_of(origin: str) -> str:
    """Return where a file of the repository stands on the site."""
    if origin == "README.md":
        return "index.md"
    if _is_documentation(origin):
        return re.sub(r"\.ipynb$", ".md", origin.removeprefix(f"{DOCS}/"))
    if origin.endswith(".md"):
        return f"source/{origin}"
    return f"source/{origin}/index.md" if (ROOT / origin).is_dir() else f"source/{origin}.md"


def page_of(path: Path) -> str:
    """Return a file or folder of the repository as Markdown."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(notebook_parts(json.loads(path.read_text(encoding="utf-8"))))
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        inside = sorted(
            each.name for each in path.iterdir() if not each.name.startswith(("_", "."))
        )
        return f"# {name}\n\n" + "\n".join(f"- `{each}`" for each in inside)
    return f"# {name}\n\n" + fenced(
        path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, "")
    )


def notebook_parts(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield a notebook's cells and outputs as Markdown."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        if source.strip():
            yield fenced(source, "python" if cell["cell_type"] == "code" else "")
        for output in cell.get("outputs", ()):
            yield output_part(output)


def output_part(output: dict[str, Any]) -> str:
    """Return one output of a cell: text, or a picture that stands in the page itself."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = base64.b64encode(base64.b64decode("".join(data["image/png"]))).decode()
        return f'<img alt="output" src="data:image/png;base64,{picture}">'
    lines = output.get("text") or data.get("text/plain") or output.get("traceback") or ""
    text = re.sub(r"\x1b\[[0-9;]*m", "", "".join(lines)).rstrip()
    return fenced(text, "text") if text else ""


def fenced(text: str, language: str) -> str:
    """Return text as a code block, whatever it holds."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _is_documentation(origin: str) -> bool:
    return origin.startswith(f"{DOCS}/") and not origin.endswith(tuple(LANGUAGES))


def _notebooks() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / DOCS).glob("notebooks/*.ipynb"))


def _outside(text: str, place: str) -> list[str]:
    """Return what a page links to that is no file below docs/."""
    found: list[str] = []

    def look(part: str) -> str:
        origins = (origin_of(match["target"], place) for match in LINK.finditer(part))
        found.extend(origin for origin in origins if origin and not _is_documentation(origin))
        return part

    _outside_fences(text, look)
    return found


def _outside_fences(text: str, change: Any) -> str:
    parts, end = [], 0
    for block in FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _expanded(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_expanded(each) for each in entry]
    if isinstance(entry, dict):
        return {title: _expanded(below) for title, below in entry.items()}
    if isinstance(entry, str) and "*" in entry:
        paths = sorted((ROOT / DOCS).glob(entry))
        return [place_of(path.relative_to(ROOT).as_posix()) for path in paths]
    return entry
