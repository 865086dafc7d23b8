"""Code on the pages of the documentation runs, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", ["wrapping.md"])
def test_the_examples_of_a_page_run(page: str) -> None:
    result = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=OPTIONS)

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", ["wrapping.md", "serving.md"])
def test_the_links_of_a_page_lead_to_files(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), target
