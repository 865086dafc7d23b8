"""The documentation builds as a site, strictly, and asks nobody outside for anything."""

from __future__ import annotations

import importlib
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mkdocstrings", reason="the extra is not installed: pip install -e '.[docs]'")
pytest.importorskip("material", reason="the extra is not installed: pip install -e '.[docs]'")

pytestmark = pytest.mark.timeout(900)  # 20 s of one free core, and all of them may be busy

PACKAGES = [
    "drpg_dspy",
    *(
        f"drpg_dspy.{name}"
        for name in (
            *("analysis", "comparing", "constraints", "exceptions", "governance", "injection"),
            *("judging", "local_lm", "memory", "online", "optimizers", "report", "retrieval"),
            *("scoring", "streaming", "testing", "tracking", "types", "usage", "weights"),
        )
    ),
    *(f"programs.{path.stem}" for path in sorted((ROOT / "programs").glob("[a-z]*.py"))),
    *(
        f"evaluators.{path.stem}"
        for path in sorted((ROOT / "evaluators").glob("[a-z]*"))
        if path.stem != "stemming"  # a part of what memory_qa compares
    ),
]
# What a browser fetches by itself; a link that somebody may follow is none of it.
FETCHED = {"src", "srcset", "poster", "data", "action"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as ``make docs`` does; anything that MkDocs complains of fails it."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    build(config)
    return folder


class Page(HTMLParser):
    """What a page fetches, and the ids that it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if value and (name in FETCHED or (tag, name) == ("link", "href")):
                self.fetched.append(value)


def nav_pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for each in below for page in nav_pages(each)]


def test_every_entry_of_the_navigation_has_its_page(site: Path) -> None:
    from mkdocs.config import load_config

    for page in nav_pages(load_config(str(ROOT / "mkdocs.yml")).nav):
        if "*" in page:  # notebooks
            assert list((ROOT / "docs").glob(page))
            expected = [path.with_suffix(".html") for path in (ROOT / "docs").glob(page)]
            found = [site / path.relative_to(ROOT / "docs") for path in expected]
        else:
            found = [site / page.replace(".md", ".html")]
        assert all(path.is_file() for path in found), page


def inventory(site: Path) -> dict[str, str]:
    """Return where each documented name stands, as the site tells others (``objects.inv``)."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = (line.split() for line in zlib.decompress(packed).decode().splitlines())
    return {words[0]: words[3].replace("$", words[0]) for words in lines}


def test_every_exported_name_is_in_the_reference(site: Path) -> None:
    ids = {path.name: Page(path.read_text()).ids for path in (site / "reference").glob("*.html")}
    places = inventory(site)
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if getattr(getattr(module, name), "__module__", "").startswith("programs._"):
                continue  # what several programs share is said where it stands
            page, _, anchor = places[f"{package}.{name}"].partition("#")
            assert anchor in ids[Path(page).name], f"{package}.{name}"


def test_the_front_of_the_reference_names_whatever_the_package_exports() -> None:
    front = (ROOT / "docs" / "reference" / "index.md").read_text()

    for name in importlib.import_module("drpg_dspy").__all__:
        assert f"`{name}`" in front, name


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for path in pages:
        outside = [u for u in Page(path.read_text()).fetched if re.match(r"(https?:)?//", u)]
        assert not outside, f"{path.relative_to(site)} fetches {outside}"
    for path in site.rglob("*.css"):
        outside = re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)'\"]+", path.read_text())
        assert not outside, f"{path.relative_to(site)} fetches {outside}"


def test_files_outside_the_docs_and_notebooks_are_pages_too(site: Path) -> None:
    assert "Wrap your program" in (site / "index.html").read_text()
    wrapping = (site / "wrapping.html").read_text()

    target = "source/tests/pipelines/wild/react_agent.py.html"
    assert f'href="{target}"' in wrapping
    assert "dspy.ReAct" in re.sub(r"<[^>]+>", "", (site / target).read_text())


def test_the_card_of_a_benchmark_is_a_list_and_its_example_keeps_its_columns(site: Path) -> None:
    page = (site / "reference" / "programs.html").read_text(encoding="utf-8")

    for label in ("Paper", "Licence", "Source", "Sizes", "Metric", "Deviations"):
        assert f"<strong>{label}:</strong>" in page
    assert re.search(r"<strong>Example:</strong></p>\s*<div class=\"highlight\"><pre>", page)


def test_roles_and_examples_of_docstrings_are_shown_as_links_and_code(site: Path) -> None:
    for path in (site / "reference").glob("*.html"):
        text = path.read_text()
        assert not re.search(r":(?:class|func|meth|attr|mod|data):`", text), path.name
        assert "<blockquote>" not in text, path.name
