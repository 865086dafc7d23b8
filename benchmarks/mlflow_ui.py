"""How long MLflow's page of a prompt takes to open, with 2,000 versions and with 2.

    python benchmarks/mlflow_ui.py [--versions 2000] [--times 5] [--folder FOLDER]

A run with a new policy on every step (five rules, about 1.5 kB) is reported to MLflow by the
library's tracker, on a SQLite store, and ``mlflow server`` is started on it. Then Chromium opens
the page of the prompt, and the clock runs until the newest version stands in the list and its text
beside it. ``open`` is a click's way: the application is loaded and goes to the page. ``load`` is a
new tab's: the application is loaded as well, from the browser's cache. Both prompts are opened in
turn. Prints JSON; seconds, medians.

``--folder`` keeps the store: a second run of the same number opens it again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.testing.mlflow_server import mlflow_server
from drpg_dspy.tracking import BackgroundWriter, MLflowTracker, RunInfo
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule

_PATIENCE = 120_000  # milliseconds


def fill(folder: Path, name: str, versions: int) -> float:
    """Report a run with so many versions; return the seconds that took."""
    began = time.perf_counter()
    with closing(SQLiteMemory(folder / f"{name}.sqlite")) as memory:
        for step in range(1, versions + 1):
            rules = tuple(
                Rule(
                    f"Rule {i} as of step {step}: " + "use the right join. " * 12,
                    sources=(f"{step:032x}", f"{step + 1:032x}"),
                )
                for i in "abcde"
            )
            policy = Policy("predict", rules, message=f"rewritten at step {step}")
            memory.record(
                Rollout(
                    id=f"step-{step}",
                    step=step,
                    inputs={"question": f"question {step}"},
                    outputs={"sql": f"SELECT {step}"},
                    guidance=Guidance(policies={"predict": policy}),
                    created_at=time.time(),
                )
            )
            memory.commit(f"step-{step}", Feedback(float(step % 3 != 0)))
        tracker = MLflowTracker("ui", tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
        writer = BackgroundWriter(memory, tracker, RunInfo(name, routes=("predict",)))
        if not writer.close(timeout=3600):
            raise SystemExit(f"MLflow did not take everything: {writer.failure_kinds}")
    return time.perf_counter() - began


@contextmanager
def browser() -> Iterator[Any]:
    """Yield a page of this machine's Chromium."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(_PATIENCE)
        yield context.new_page()
        chromium.close()


def shown(page: Any, address: str, versions: int) -> float:
    """Return the seconds from going to a prompt's page until its newest version is shown."""
    began = time.perf_counter()
    page.goto(address)
    page.get_by_text(f"Viewing version {versions}", exact=True).wait_for()
    page.get_by_role("row").get_by_text(f"Version {versions}", exact=True).wait_for()
    page.get_by_text(f"Rule a as of step {versions}:").first.wait_for()
    return time.perf_counter() - began


class Asked:
    """The requests that a page makes of the registry."""

    def __init__(self, page: Any) -> None:
        self.seconds: list[float] = []
        self.bytes = 0
        page.on("requestfinished", self._note)

    def _note(self, request: Any) -> None:
        if "model-versions/search" in request.url:
            self.seconds.append(request.timing["responseEnd"] / 1000)
            self.bytes += request.sizes()["responseBodySize"]


def measure(page: Any, uri: str, sizes: dict[str, int], times: int) -> dict[str, Any]:
    """Open the prompts in turn and return the medians."""
    opened: dict[str, list[float]] = {name: [] for name in sizes}
    loaded: dict[str, list[float]] = {name: [] for name in sizes}
    page.goto(f"{uri}/#/prompts")
    page.get_by_role("link", name="few.predict.policy").wait_for()
    for _ in range(times):
        for name, versions in sizes.items():
            address = f"{uri}/#/prompts/{name}.predict.policy"
            opened[name].append(shown(page, address, versions))
            page.goto("about:blank")
            loaded[name].append(shown(page, address, versions))
            page.goto(f"{uri}/#/prompts")
            page.get_by_role("link", name="few.predict.policy").wait_for()
    asked = Asked(page)
    shown(page, f"{uri}/#/prompts/many.predict.policy", sizes["many"])
    page.wait_for_function("() => document.querySelectorAll('[role=row]').length > 2")
    return {
        f"{what}_{name}_s": round(statistics.median(found[name]), 2)
        for what, found in (("open", opened), ("load", loaded))
        for name in sizes
    } | {
        "open_many_each_s": [round(seconds, 2) for seconds in opened["many"]],
        "rows": page.get_by_role("row").count(),
        "registry_requests": len(asked.seconds),
        "registry_requests_s": round(sum(asked.seconds), 2),
        "registry_bytes": asked.bytes,
    }


def run(folder: Path, versions: int, times: int) -> dict[str, Any]:
    """Fill a store, unless it is filled, and measure."""
    sizes = {"many": versions, "few": 2}
    filled = {}
    for name, count in sizes.items():
        if not (folder / f"{name}.sqlite").exists():
            filled[f"filling_{name}_s"] = round(fill(folder, name, count), 1)
    with mlflow_server(folder) as uri, browser() as page:
        figures = measure(page, uri, sizes, times)
    return {
        "versions": versions,
        **filled,
        **figures,
        "open_ratio": round(figures["open_many_s"] / figures["open_few_s"], 2),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--versions", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the store here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)  # MLflow puts the artifacts of a database store under ./mlruns
        print(json.dumps(run(folder, options.versions, options.times), indent=2))


if __name__ == "__main__":
    main()
