"""Whether a response does what it was told: the instructions of IFBench and of IFEval.

Papers: Pyatkin et al., "Generalizing Verifiable Instruction Following" (IFBench: 58 instructions,
2025); Zhou et al., "Instruction-Following Evaluation for Large Language Models" (IFEval: 25
instructions, 2023). The checks were written for this project. They mean to agree, row for row,
with the published ones, so where those judge something else than what a prompt's wording says,
these do the same:

=============================== ==================================================================
instruction                     what is judged
=============================== ==================================================================
count:conjunctions              forms, as written: *And* and *and,* are two
count:pronouns                  contractions (*it's*) are none
ratio:overlap                   trigrams of characters, not of words
ratio:sentence_words            the lengths of the three sentences; not whether words recur
repeat:repeat_span              the word at ``n_end`` is left out
format:list                     two occurrences of the mark, wherever they stand
format:no_bullets_bullets       two sentences, whatever they end in; nothing may follow the list
format:sub-bullets              a ``-`` between each asterisk and the next. A response without
                                asterisks follows it, hence every response in loose form
format:thesis                   the first italics alone
format:title_case               every word, the short ones too, but not *a*
format:quotes                   apostrophes count as single quotes
words:vowel                     the different vowels of the whole response
words:words_position            a final full stop is a word
sentence:alliteration_increment the sum of all alliterating words in a sentence
combination:repeat_prompt       capitals do not matter
keywords:*                      capitals do not matter; keywords may stand inside longer words,
                                forbidden ones not
language:response_language      a text without letters counts as followed
=============================== ==================================================================

Where the published code would end the run (an answer of punctuation alone, a table that is no
table), the instruction counts as not followed. The data's two instructions on how often ``#`` and
``!`` occur are judged by those marks; the published code draws a letter at random there.

``words:start_verb`` hangs on a tagger: see
:func:`~evaluators.instructions.libraries.verb_first`.
"""

from __future__ import annotations

# Imported for what they enter into the registry.
from evaluators.instructions import (  # noqa: F401
    ifbench_counts,
    ifbench_custom,
    ifbench_formats,
    ifbench_words,
    ifeval_format,
    ifeval_wording,
)
from evaluators.instructions.following import (
    InstructionVerdicts,
    check_instructions,
    variants,
    verdicts,
)
from evaluators.instructions.judge import SCORINGS, FollowsInstructions
from evaluators.instructions.registry import Finding, Instruction, find, known

__all__ = [
    "SCORINGS",
    "Finding",
    "FollowsInstructions",
    "Instruction",
    "InstructionVerdicts",
    "check_instructions",
    "find",
    "known",
    "variants",
    "verdicts",
]
