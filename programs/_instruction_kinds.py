"""Which instructions of IFBench a prompt holds, told from its words alone.

Corrections are sorted by what a prompt asks for. The ids of its instructions are labels, which a
running program does not have; their wording is in the prompt.
"""

from __future__ import annotations

import re

__all__ = ["kinds_in"]

_WORDINGS = {
    "count:conjunctions": r"coordinating conjunctions",
    "count:keywords_multiple": r"keyword \S+ once .*keyword \S+ twice",
    "count:numbers": r"\bexactly \d+ numbers?\b",
    "count:person_names": r"\bmention at least \d+ different person names\b|person names",
    "count:pronouns": r"\bat least \d+ pronouns\b",
    "count:punctuation": r"standard punctuation mark|interrobang",
    "count:unique_word_count": r"\bat least \d+ unique words\b",
    "count:word_count_range": r"\bbetween \d+ and \d+ words\b",
    "count:words_japanese": r"word of your response must be in japanese",
    "custom:character_reverse": r"in reverse order .*per letter",
    "custom:csv_special_character": r"csv data.*special character",
    "custom:csv_quotes": r"csv data.*enclose each single field in double quotes",
    "custom:csv_city": r"csv data.*\"city\"",
    "custom:date_format_list": r"date format: yyyy-mm-dd",
    "custom:european_capitals_sort": r"capital cities .*sorted by latitude",
    "custom:mcq_count_length": r"multiple choice questions .*progressively longer",
    "custom:multiples": r"only print multiples of",
    "custom:reverse_newline": r"reverse alphabetical order",
    "custom:sentence_alphabet": r"26-sentence story|each sentence's first word starts",
    "custom:word_reverse": r"in reverse order .*per word",
    "format:emoji": r"emoji at the end of every sentence",
    "format:line_indent": r"incrementally indenting",
    "format:list": r"instead of bullet points use",
    "format:newline": r"write each word on a new line",
    "format:no_bullets_bullets": r"ending in a period followed by at least two bullet points",
    "format:no_whitespace": r"not contain any whitespace",
    "format:options": r"one of the following options",
    "format:output_template": r"use this exact template",
    "format:parentheses": r"nest parentheses",
    "format:quote_unquote": r"every quoted phrase .*unquoted|quoted phrase",
    "format:quotes": r"quotes within quotes",
    "format:sub-bullets": r"sub-bullet point",
    "format:thesis": r"thesis statement in italics",
    "format:title_case": r"in title case",
    "ratio:overlap": r"trigram overlap",
    "ratio:sentence_balance": r"ratio of sentence types",
    "ratio:sentence_type": r"ratio of declarative to interrogative",
    "ratio:sentence_words": r"three sentences, all containing the same number of characters",
    "ratio:stop_words": r"stop words constitute no more than",
    "repeat:repeat_change": r"change the first word of the repeated request",
    "repeat:repeat_simple": r"only output this sentence here",
    "repeat:repeat_span": r"copy the span of words",
    "sentence:alliteration_increment": r"consecutive alliterative words",
    "sentence:increment": r"exactly \d+ more words than the previous one",
    "sentence:keyword": r"keyword \S+ in the \d+-\w+ sentence\.",
    "words:alphabet": r"next letter of the alphabet",
    "words:consonants": r"consonant cluster",
    "words:keywords_specific_position": r"keyword \S+ in the \d+-\w+ sentence, as the \d+-\w+ word",
    "words:last_first": r"last word of each sentence must become the first word",
    "words:no_consecutive": r"consecutive words can share the same first letter",
    "words:odd_even_syllables": r"odd and even numbers of syllables",
    "words:palindrome": r"palindromes",
    "words:paragraph_last_first": r"each paragraph of your response must end with the same word",
    "words:prime_lengths": r"lengths that are prime numbers",
    "words:repeats": r"not repeat any word more than",
    "words:start_verb": r"must start with a verb",
    "words:vowel": r"only three types of vowels",
    "words:words_position": r"word in your response .*should be the word",
}

_COMPILED = {
    name: re.compile(words, re.IGNORECASE | re.DOTALL) for name, words in _WORDINGS.items()
}


def kinds_in(prompt: str) -> list[str]:
    """Return the ids of the instructions that a prompt holds, in the order of their words.

    >>> kinds_in("Use at least 36 unique words. Write each word on a new line.")
    ['count:unique_word_count', 'format:newline']
    >>> kinds_in("What is the capital of France?")
    []
    """
    places = {
        name: found.start()
        for name, wording in _COMPILED.items()
        if (found := wording.search(prompt))
    }
    return sorted(places, key=lambda name: places[name])
