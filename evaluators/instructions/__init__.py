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
count:pronouns                  punctuation is taken out first: *it's* counts, as *its*
count:numbers                   runs of digits, also in *4th* and *B2B*, once punctuation is gone
ratio:overlap                   trigrams of characters, not of words
ratio:sentence_type             0 to 0 is two to one
ratio:sentence_words            the lengths of the three sentences; not whether words recur
repeat:repeat_span              the word at ``n_end`` is left out
format:line_indent              the second of two blank lines in a row is a line as well
format:list                     two occurrences of the mark, wherever they stand
format:no_bullets_bullets       two sentences, whatever they end in; one empty line at most, before
                                the list; nothing may follow the list, no empty line either
format:sub-bullets              a ``-`` between each asterisk and the next. A response without
                                asterisks follows it, hence every response in loose form
format:thesis                   the first italics alone
format:title_case               every word, the short ones too, but not *a*
format:quotes                   apostrophes count as single quotes
words:vowel                     the different vowels of the whole response
words:words_position            a final full stop is a word
sentence:alliteration_increment the sum of all alliterating words in a sentence
custom:european_capitals_sort   27 capitals, without Kyiv, in capitals and small letters as usual
custom:reverse_newline          52 lines or more from one with Zimbabwe on, in the order of their
                                characters, whatever they name
custom:date_format_list         days and months of 00 pass
custom:csv_special_character    the rows below the field are not looked at
combination:repeat_prompt       capitals do not matter
keywords:*                      capitals do not matter; keywords may stand inside longer words,
                                forbidden ones not
language:response_language      a text without letters counts as followed
=============================== ==================================================================

IFBench's own checks have changed since. The scorings ``strict`` and ``loose`` judge as they did
when IFBench came out and through 2025, which is what most published figures were made with;
``strict_2026`` and ``loose_2026`` as they have since, with these differences:

=============================== ==================================================================
instruction                     what is judged since 2026
=============================== ==================================================================
on sentences, all of them       sentences are cut by NLTK's Punkt, not by
                                :func:`evaluators.instructions.text.sentences`
sentence:keyword                the keyword must be a word of its own
count:pronouns                  demonstratives, interrogatives and indefinites too, among tokens
words:words_position            capitals do not matter; a final mark is no word, others are
words:keywords_specific_pos…    capitals do not matter; marks are no words
format:title_case               *a* must have a capital as well
format:quote_unquote            typographic quotes are none; punctuation alone passes
repeat:repeat_span              the characters ``n_start`` to ``n_end``, not words
=============================== ==================================================================

``strict_described`` and ``loose_described`` follow the wording instead in these places; elsewhere
they are ``strict`` and ``loose``:

=============================== ==================================================================
instruction                     what is judged as described
=============================== ==================================================================
keywords:existence, :frequency  keywords as words of their own, not as patterns
ratio:sentence_type             a question at least
words:words_position            words, none of them a mark; capitals do not matter
words:keywords_specific_pos…    the same
custom:sentence_alphabet        the first letter, whatever marks stand before it
format:line_indent              blank lines are none
repeat:repeat_span              the words ``n_start`` to ``n_end``, counted from 1, both included
detectable_format:json_format   fences of any length, closed as they were opened; no ``NaN``
=============================== ==================================================================

In two places both published scorings judge as since 2026: ``count:person_names`` takes no name out
of a longer word, and what would have ended a run of 2025 (an answer of punctuation alone, a table
that is no table) is not followed. NLTK's tokenizers are those of its releases 3.9.1 and 3.9.2,
whichever is installed. Where the published code draws at random (IFEval's letters ``#`` and ``!``,
a span from word 0 on in 2025) the data's own arguments count.

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
