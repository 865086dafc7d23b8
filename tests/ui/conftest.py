"""A real MLflow server with a real run in it, and a real browser that reaches nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for scripted_shop

STEPS = 45
PATIENCE = 120_000
"""Milliseconds until something must be there; on a quiet machine it takes one or two seconds."""

_GREETED = """
for (const key of ["detectIssues.guidanceShown", "assistant.fab.autoOpenedOnFirstLoad"])
  try { localStorage.setItem(`mlflow.${key}_v1`, "true"); } catch { /* no page yet */ }
"""
"""MLflow greets newcomers with an assistant and with hints, which cover what a test asks for."""


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Server:
    """A server, and what was put into it.

    Attributes:
        uri: Its address.
        memory: The learner's memory.
        run_id: Of the run.
    """

    uri: str
    memory: Path
    run_id: str = ""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An assistant has answered and learned, with DSPy's traces on, and has ended."""
    if _chromium() is None:
        pytest.skip("Chromium is not installed: apt-get install --no-install-recommends chromium")
    pytest.importorskip("playwright")
    mlflow = pytest.importorskip("mlflow")
    import scripted_shop as shop

    from drpg_dspy.testing.mlflow_server import mlflow_server

    folder = tmp_path_factory.mktemp("mlflow-ui")
    with mlflow_server(folder) as uri:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(shop.EXPERIMENT)
        mlflow.dspy.autolog()
        try:
            online, _ = shop.learner(folder / "memory.sqlite", uri)
            shop.serve(online, STEPS)
            online.close(timeout=600)
            yield Server(uri, folder / "memory.sqlite", online.tracker.run_id)
        finally:
            mlflow.dspy.autolog(disable=True)
            mlflow.set_tracking_uri(None)


class Program:
    """The assistant, running in another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def prompt_for(self, question: str) -> str:
        """Ask it; return what its LM was shown."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return str(json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def program(server: Server) -> Iterator[Program]:
    """Go on with the run in a process of its own; it starts while other tests use the browser."""
    script = Path(__file__).with_name("scripted_shop.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(server.memory), server.uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Program(process)
    finally:
        process.kill()
        process.communicate()


@dataclass
class Site:
    """The one page of the browser.

    Attributes:
        page: Playwright's.
        uri: The server's address.
        folder: Where pictures go; ``None`` = nowhere.
        outside: Addresses elsewhere that the page asked for; nothing reached them.
    """

    page: Any
    uri: str
    folder: Path | None
    outside: list[str] = field(default_factory=list)

    def open(self, place: str) -> Any:
        """Go to a place of MLflow's, such as ``prompts/NAME``; return the page."""
        self.page.goto(f"{self.uri}/#/{place}")
        return self.page

    def picture(self, name: str, *, height: int = 900, left: int = 200) -> None:
        """Keep what is shown, without the menu on the left."""
        if self.folder is not None:
            clip = {"x": left, "y": 0, "width": 1280 - left, "height": height}
            self.page.screenshot(
                path=self.folder / f"mlflow-{name}.png", clip=clip, animations="disabled"
            )


@pytest.fixture(scope="module")
def site(server: Server, program: Program) -> Iterator[Site]:
    """A browser of this machine, on a page that reaches the server and nothing else."""
    wanted = os.environ.get("DRPG_SCREENSHOTS")
    folder = Path(wanted) if wanted else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with browser_page() as page:
        site = Site(page, server.uri, folder)

        def only_here(route: Any) -> None:
            if route.request.url.startswith((server.uri, "data:", "blob:")):
                route.continue_()
            else:
                site.outside.append(route.request.url)
                route.abort()

        page.route("**/*", only_here)
        page.add_init_script(_GREETED)
        yield site


@contextmanager
def browser_page() -> Iterator[Any]:
    """Yield a page of Debian's Chromium; Playwright brings none and downloads none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.set_default_timeout(PATIENCE)
            yield context.new_page()
        finally:
            browser.close()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Return what waits for another process, and fails when it never comes about."""
    import threading

    def wait(holds: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(PATIENCE // 50):
            if holds():
                return
            pause.wait(0.05)
        raise AssertionError("it did not happen")

    return wait
