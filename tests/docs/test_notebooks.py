"""The notebooks run from top to bottom, show what they say, and what is stored is fit to print.

They run in a real kernel, one for all of them, with a function that plays the model
(docs/notebooks/scripted_answers.py). What is stored comes from a real one: `make notebooks`.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra 'dev' is not installed")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
SHOWN = {
    "01_first_stream": [
        "zero-shot: 1 of 8 right",
        "with DRPG: 6 of 8 right",
        "Never count cancelled orders: status <> 'X'.  (by metric, from steps [1, 2])",
        "[[ ## policy ## ]]\n- Never count cancelled orders",
        "with DRPG: 8 calls",
    ],
    "02_wrap_your_pipeline": [
        "True",
        "Gift cards cannot be returned or paid out. (§2)",
        "by person - from the first answer: True",
        "100.0 % name their paragraph",
        "7 answers on record, 2 with a verdict",
        "Returns are free for 30 days after delivery. (§1)",
        "(True, True)",
    ],
    "03_late_feedback": [
        "payments   The code on my gift card does not work.",
        "answers: 4  judged: 2",
        "shops\n- Everything about gift cards is answered by shops.  (person:ada)",
        "{}\njudged: 1",
        "person:ada: Everything about gift cards is answered by shops.",
        "(taken back)",
        "judged: 2  right: 2",
        "UnknownRollout: No rollout 'no-such-answer'",
        "A score must lie in [0, 1], got 7.0",
        "A message like this is answered by shops.",
    ],
    "04_write_an_optimizer": [
        "✓ predicting changes no state",
        "✓ a pinned rule survives whatever is learned",
        "Counting() breaks a law: predicting changes no state.",
        "ZeroShot(): 2 of 8 right",
        "VotedRules(): 6 of 8 right",
        "+6  Things that arrived broken are answered by payments.",
        "Holdout(optimizer=VotedRules(size=5))",
    ],
    "05_add_a_benchmark": [
        "8 examples; a program sees ['note']",
        "gold answers: 8.0",
        "'next week'  0.0",
        "2 of 8, 25% exact match",
        "zero_shot: 2 of 8 right",
        "drpg: 7 of 8 right",
        "[[ ## policy ## ]]\n- The day comes first",
    ],
    "06_compare": [
        r"zero_shot         33%       10% to 70%                6                    1.0",
        "drpg             100%",
        "gepa: the budget of 16 LM calls is used up (16 spent)",
        "drpg: 4 turned right, 0 turned wrong, p = 0.12",
        "policy of self, version 3, the last that was written",
        "['zero_shot', 'drpg', 'miprov2', 'gepa'] - 0 calls",
        "'index.html'",
    ],
    "07_constraints": [
        "add Length 'Keep the answer under 12 words.'\nIt rests, and has a thick crust.",
        "constraint_repairs: 1",
        "constraint_mends: 1",
        "- Keep the answer under 30 words.\n- Do not use commas.",
        "contradicts No_Commas: no commas and 'Yours, Anna' (found by rule)",
        "in force: ['Length', 'End_With']\nin force: ['Length', 'No_Commas']",
        "- Begin the answer with 'Hello'.\n- Say that the shop opens at seven.",
        "left out: Begin the answer with 'Dear customer'.",
        "7  person:eve   delete No_Commas",
    ],
    "08_govern_in_mlflow": [
        "3 of 5 right",
        "version 2, by drpg, step 3",
        "+ Amounts are in cents: divide amount by 100.0.",
        "step 1, wrong: How many orders are there?",
        "self@3 waits:",
        "- Never use SELECT *.\n- Never count cancelled orders",
        "- Amounts are in cents: divide amount by 100.0.\n- Cancelled orders do not count",
        "take up           self@2   person:mlflow  alias champion set on version 2",
        "Both rules in the accountant's words",
        "FINISHED ['history.jsonl', 'inspector.html']",
    ],
}
MACHINE = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|work|Users|var|opt|usr)/|\b[A-Z]:\\")
SECRET = re.compile(
    r"\b(?:sk-|hf_|ghp_|AKIA)\w{8,}|(?i:api[_-]?key|token|password)\s*[=:]\s*['\"]?\w"
)
NAMES = sorted(SHOWN)


def _execute() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_execute", FOLDER / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = _execute()


def stored(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook: Any) -> str:
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return "\n".join(_text(output).rstrip("\n") for output in outputs)


def _text(output: Any) -> str:
    return output.text if "text" in output else output.data.get("text/plain", "")


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One kernel for all notebooks: starting one and importing DSPy takes seconds."""
    environment = {**os.environ, "DRPG_NOTEBOOK_LM": "scripted", "DRPG_EMBEDDER": "hashing"}
    kernel = execute.kernel(tmp_path_factory.mktemp("kernel"), environment)
    yield kernel
    kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_what_it_says(name: str, manager: Any, tmp_path: Path) -> None:
    fresh = f"%reset -f\nimport os\nos.chdir({str(tmp_path)!r})"

    notebook = execute.run(FOLDER / f"{name}.ipynb", manager, tmp_path, first=fresh, seconds=240)

    said = printed(notebook)
    missing = [text for text in SHOWN[name] if text not in said]
    assert not missing, said
    assert not MACHINE.search(said)


def test_there_are_eight_notebooks_and_each_is_checked() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
    assert [name[:2] for name in NAMES] == [f"0{number}" for number in range(1, 9)]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_notebook_has_the_outputs_of_one_run_from_top_to_bottom(name: str) -> None:
    cells = code_cells(stored(name))

    counts = [cell.execution_count for cell in cells]
    remedy = "run `make notebooks` and look at what it printed"
    assert counts == list(range(1, len(cells) + 1)), remedy
    assert printed(stored(name)), remedy
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_a_real_models_and_of_the_code_beside_them(name: str) -> None:
    made = stored(name).metadata.get(execute.MADE, {"lm": "nobody", "code": ""})

    assert made["lm"] not in ("nobody", "scripted"), "run `make notebooks`"
    assert made["code"] == execute.code_digest(stored(name)), (
        "a cell has changed since it was run: `make notebooks`, or "
        f"`python docs/notebooks/execute.py {name[:2]}` for this one"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_notebook_tells_nothing_of_the_machine_it_ran_on(name: str) -> None:
    notebook = stored(name)
    text = "\n".join([printed(notebook), *(cell.source for cell in notebook.cells)])

    assert not MACHINE.findall(text)
    assert not SECRET.findall(text)
    assert execute.tidied(stored(name), FOLDER) == notebook


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_its_title_and_the_choice_of_the_model(name: str) -> None:
    first, second = stored(name).cells[:2]

    assert first.source.startswith("# ")
    assert second.source == (
        "import dspy\nfrom notebook_lm import notebook_lm\n\nlm = notebook_lm()\n"
        "dspy.configure(lm=lm)"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_ends_with_what_to_look_at_next_and_its_links_lead_somewhere(name: str) -> None:
    prose = [cell.source for cell in stored(name).cells if cell.cell_type == "markdown"]

    assert prose[-1].startswith("## Next") or "\n## Next\n" in prose[-1]
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", "\n".join(prose)):
        assert (FOLDER / target).exists(), target


def test_the_optimizer_of_the_fourth_notebook_has_forty_lines() -> None:
    sources = [cell.source for cell in code_cells(stored("04_write_an_optimizer"))]
    source = next(text for text in sources if "class VotedRules" in text)
    written = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    lines = source.splitlines()[written.lineno - 1 : written.end_lineno]

    assert 30 <= sum(bool(line.strip()) for line in lines) <= 40


def test_what_belongs_to_one_run_or_machine_is_taken_out_of_a_notebook(tmp_path: Path) -> None:
    new = nbformat.v4
    outputs = [
        new.new_output("stream", name="stdout", text="came "),
        new.new_output("stream", name="stderr", text="100%|████| 4/4 [00:01<00:00, 3.2it/s]\n"),
        new.new_output("stream", name="stdout", text="in pieces\n"),
        new.new_output("stream", name="stdout", text=f"\x1b[31m{tmp_path}/a 0x7f0012ab\x1b[0m\n"),
        new.new_output(
            "execute_result", execution_count=1, metadata={"took": 1},
            data={"text/plain": str(Path.home() / "b"), "image/png": "aGk="},
        ),
    ]  # fmt: skip
    cell = new.new_code_cell("x", outputs=outputs, metadata={"execution": {"started": "now"}})
    notebook = new.new_notebook(cells=[cell], metadata={"widgets": {}})

    found = execute.tidied(notebook, tmp_path)

    assert printed(found) == "came in pieces\n./a 0x…\n~/b"
    assert found.cells[0].metadata == {}
    assert set(found.metadata) == {"kernelspec", "language_info"}
    assert execute.code_digest(found) != execute.code_digest(new.new_notebook())
    assert found.cells[0].outputs[1].data.keys() == {"text/plain"}


def test_a_notebook_that_does_not_exist_is_refused_with_the_names_that_do() -> None:
    assert [path.stem for path in execute.notebooks(["03", "01"])] == [
        "01_first_stream",
        "03_late_feedback",
    ]
    with pytest.raises(SystemExit, match=r"'09'.*01_first_stream, "):
        execute.notebooks(["09"])


def test_a_reader_may_name_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setenv("DRPG_NOTEBOOK_LM", "openai/some-model")
    spec = importlib.util.spec_from_file_location("notebook_lm_here", FOLDER / "notebook_lm.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]

    assert module.notebook_lm().model == "openai/some-model"
