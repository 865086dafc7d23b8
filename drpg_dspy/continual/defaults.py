"""How a model answers when nothing is asked of the answer: measured once, and kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import dspy
from dspy.utils.exceptions import DSPyError

from drpg_dspy.continual.context import Prompt
from drpg_dspy.continual.prompting import respond
from drpg_dspy.plain import digest
from drpg_dspy.streaming.attempts import is_passing
from drpg_dspy.streaming.refusals import refusal

__all__ = ["DefaultAnswers"]


class DefaultAnswers:
    """Answers of a model to prompts without any constraint, in a file that runs share.

    The rate at which they happen to meet a constraint is that constraint's default rate, which
    unlearning is measured against. Kept are the answers, so that a constraint thought of later
    needs no new ones.

    Args:
        folder: Where files are kept, one for each model and its settings.
        lm: The model; its name stands for it (a local one's holds the hash of its file).
        settings: What else shapes an answer: temperature, reply length.
    """

    def __init__(self, folder: Path, lm: dspy.BaseLM, settings: Mapping[str, object]) -> None:
        name = str(getattr(lm, "model", type(lm).__name__))
        self.path = folder / f"{digest(name, dict(settings))}.jsonl"
        self.lm = lm

    def known(self) -> dict[str, str]:
        """Return the answers on file, by prompt text; damaged lines are left out."""
        found: dict[str, str] = {}
        if not self.path.exists():
            return found
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                found[str(row["prompt"])] = str(row["answer"])
            except (ValueError, KeyError, TypeError):
                continue  # half written when a process was killed; asked again
        return found

    def answers(self, program: dspy.Module, prompts: Sequence[Prompt]) -> dict[str, str]:
        """Return an answer for each prompt, by its id; what is not on file is asked now.

        Raises:
            DSPyError: The language model refuses every request or is out of reach. What it had
                answered by then is kept.
        """
        known = self.known()
        with dspy.context(lm=self.lm):
            for prompt in prompts:
                if prompt.text not in known:
                    known[prompt.text] = self._ask(program, prompt)
        return {prompt.id: known[prompt.text] for prompt in prompts}

    def _ask(self, program: dspy.Module, prompt: Prompt) -> str:
        try:
            answer = respond(program, prompt.text)
        except (DSPyError, ValueError) as raised:
            if refusal(raised) or is_passing(raised):
                raise
            return ""  # a reply that could not be read stands for this run, and is not kept
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"prompt": prompt.text, "answer": answer}) + "\n"
        with self.path.open("ab") as file:  # one write: runs may measure at the same time
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        return answer
