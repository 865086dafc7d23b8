"""How long rule checks take: 1,000 answers against one constraint of each of the 8 rule types.

    python benchmarks/constraints.py

Bound: under 1 second in all, of CPU time, so that a busy machine does not change the figure.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from drpg_dspy.constraints import RULE_TYPES, RuleCheck

TEXTS = {
    "Length": "Write between 60 and 100 words.",
    "Keyword": 'Mention the word "practical" at least twice.',
    "Format": "Answer as a bulleted list.",
    "Start_With": 'Start the answer with the word "Note".',
    "End_With": 'End the answer with the words "that is all".',
    "No_Commas": "Do not use any commas.",
    "All_Lower": "Write everything in lowercase letters.",
    "All_Upper": "Write everything in uppercase letters.",
}
WORDS = "the practical harbour, a reliable Note of tea and salt is on the table all day".split()


def answers(count: int) -> list[str]:
    """Return answers of 20 to 200 words, some as lists, the same every time."""
    rng = random.Random(0)
    found = []
    for number in range(count):
        words = rng.choices(WORDS, k=rng.randint(20, 200))
        lines = [" ".join(words[i : i + 12]) + "." for i in range(0, len(words), 12)]
        found.append("\n".join(f"- {line}" if number % 3 == 0 else line for line in lines))
    return found


def main() -> int:
    """Measure, print one line a type and the sum; fail above the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--bound", type=float, default=1.0, help="seconds")
    options = parser.parse_args()
    given, check, total = answers(options.answers), RuleCheck(), 0.0
    for kind in RULE_TYPES:
        begun = time.process_time()
        met = sum(check.check(kind, TEXTS[kind], answer).satisfied is True for answer in given)
        seconds = time.process_time() - begun
        total += seconds
        print(f"{kind:10} {1000 * seconds:7.1f} ms  {met} of {len(given)} met")
    print(f"{'all':10} {1000 * total:7.1f} ms  bound {options.bound:.1f} s")
    return 0 if total < options.bound else 1


if __name__ == "__main__":
    sys.exit(main())
