"""A program of three modules, a model that plays them, and one that reads their traces honestly.

The model errs in one known module until that module's own prompt holds the rule that corrects
it. The coach knows nothing but its prompts: it checks each step of the record against what the
prompt says the module is there for.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import dspy

from drpg_dspy.testing import ScriptedLM, fields

PURPOSES = {
    "pick": "Keep the words that begin with a capital letter, in their order.",
    "sort": "Put the words into alphabetical order, all of them.",
    "join": "Join the words with hyphens, all of them.",
}
NAMES = "Ada Bert Cleo Dora Emil Fritz Gala Hugo Ines Jonas Karla Ludwig".split()
SMALL = "apple bread cloud dust ember fern grass honey".split()

Work = Callable[[str], str]
WORK: dict[str, Work] = {
    "pick": lambda text: " ".join(w for w in text.split() if w[0].isupper()),
    "sort": lambda text: " ".join(sorted(text.split())),
    "join": lambda text: "-".join(text.split()),
}
MISTAKES: dict[str, Work] = {
    "forgets the last word": lambda text: re.sub(r"[ -]?\w+$", "", text),
    "doubles the first word": lambda text: re.sub(r"^(\w+)([ -]?)", r"\1\2\1\2", text),
    "writes in small letters": str.lower,
}


def signature(purpose: str, fields: str) -> type[dspy.Signature]:
    return dspy.Signature(fields, purpose)


class ThreeModules(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pick = dspy.Predict(signature(PURPOSES["pick"], "words -> kept"))
        self.sort = dspy.Predict(signature(PURPOSES["sort"], "kept -> sorted_words"))
        self.join = dspy.Predict(signature(PURPOSES["join"], "sorted_words -> answer"))

    def forward(self, words: str) -> dspy.Prediction:
        kept = self.pick(words=words).kept
        ordered = self.sort(kept=kept).sorted_words
        return dspy.Prediction(answer=self.join(sorted_words=ordered).answer)


def question(seed: int) -> str:
    """Return some capitalised and some small words, mixed."""
    rng = random.Random(seed)
    words = rng.sample(NAMES, 4) + rng.sample(SMALL, 3)
    rng.shuffle(words)
    return " ".join(words)


def gold(words: str) -> str:
    """Return the right answer."""
    return WORK["join"](WORK["sort"](WORK["pick"](words)))


def rule_for(module: str) -> str:
    """Return the rule that corrects a module."""
    return f"Check that this holds: {PURPOSES[module]}"


def model(faulty: str, mistake: str) -> ScriptedLM:
    """Return a model in which one module makes one mistake, and which also coaches."""

    def script(messages: list[dict[str, str]]) -> str:
        system, asked = messages[0]["content"], messages[-1]["content"]
        if "You coach" in system:
            return find_fault(asked) if "modules_at_fault" in system else correct(asked)
        module = next(name for name, purpose in PURPOSES.items() if purpose in system)
        (given,) = re.findall(r"\[\[ ## (?:words|kept|sorted_words) ## \]\]\n(.*)", asked)[:1]
        answer = WORK[module](given)
        if module == faulty and rule_for(module) not in asked:
            answer = MISTAKES[mistake](answer)
        output = {"pick": "kept", "sort": "sorted_words", "join": "answer"}[module]
        return fields(**{output: answer})

    return ScriptedLM(script)


def find_fault(prompt: str) -> str:
    """Return the first step that did not do what its module is there for."""
    purposes = dict(re.findall(r"^- (\w+): (.+)$", prompt, re.MULTILINE))
    for number, module, given, made in steps(prompt):
        if not holds(purposes[module], given, made):
            reason = f"it gave {made!r}"
            return json.dumps({"step": number, "modules_at_fault": [module], "reason": reason})
    return json.dumps({"step": 0, "modules_at_fault": [], "reason": "every step is right"})


def correct(prompt: str) -> str:
    """Return the rule for a module that did wrong; of one that did right, only a complaint."""
    (purpose,) = re.findall(r"\[\[ ## module ## \]\]\n\w[\w ]*: (.+)", prompt)
    wrong = [made for _, _, given, made in steps(prompt) if not holds(purpose, given, made)]
    if not wrong:
        return json.dumps({"rules": [], "upstream": "what came in was not what it should be"})
    return json.dumps({"rules": [f"Check that this holds: {purpose}"], "upstream": ""})


def steps(prompt: str) -> list[tuple[int, str, str, str]]:
    """Return number, module, input and output of each step of a record."""
    found = re.findall(
        r"\[step (\d+)\] module: (\w+)\nreceived \w+: (.*)\ngave \w+:[ ]?(.*)\n", prompt
    )
    return [(int(number), module, given, made) for number, module, given, made in found]


def holds(purpose: str, given: str, made: str) -> bool:
    """Tell whether a step did what its purpose says."""
    module = next((name for name, text in PURPOSES.items() if text == purpose), None)
    return module is None or WORK[module](given) == made
