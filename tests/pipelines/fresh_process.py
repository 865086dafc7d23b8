"""Goes on, in a process of its own, with the learners that another one saved.

    python fresh_process.py FOLDER

FOLDER holds one saved learner for each number of a pipeline. Prints, as JSON by pipeline: the
prompts of the next call, its answer, and how many experiences there are after one more verdict.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import dspy
from catalogue import PIPELINES, Pipeline, cast

from drpg_dspy import DRPG, OnlinePolicyOptimizer
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder


def go_on(pipeline: Pipeline, folder: Path) -> dict[str, Any]:
    """Load one learner, answer, learn, and save it again."""
    models = cast(pipeline)
    with dspy.context(lm=models.small):
        program = (pipeline.anew or pipeline.build)(models)
        memory = SQLiteMemory(folder / "in_use.sqlite", HashingEmbedder())
        with OnlinePolicyOptimizer(program, DRPG(k=2, feedback_text=True), memory=memory) as online:
            online.load(folder / "saved")
            prediction = online(**pipeline.inputs(2))
            prompts = models.texts()
            online.feedback(prediction.rollout_id, score=1.0)
            online.save(folder / "saved again")
            return {
                "prompts": prompts,
                "answer": repr(prediction[pipeline.output]),
                "experiences": online.memory.count(),
            }


def main() -> None:
    """Go on with every learner there is."""
    logging.disable(logging.WARNING)
    root = Path(sys.argv[1])
    found = {
        name: go_on(pipeline, root / str(number))
        for number, (name, pipeline) in enumerate(PIPELINES.items())
        if (root / str(number)).is_dir()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
