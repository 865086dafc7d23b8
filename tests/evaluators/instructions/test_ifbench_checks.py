"""IFBench's checks, one by one: strict form, on texts that decide."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Any

import pytest

from evaluators.instructions import find, known, verdicts
from evaluators.instructions.ifbench_counts import _NAMES

SIX = "Anna civic kayak level madam radar refer rotor solos stats tenet".split()
KEYS = {f"keyword{place}": word for place, word in enumerate("ab cd ef gh ij".split(), 1)}
RIGHT_TIMES = "ab" + "cd" * 2 + "ef" * 3 + "gh" * 5 + "IJ" * 7
QUIZ = "\n\n".join(
    f"Question {n}: {'Who ' * n}?\nA) one\nB) two\nC) three\nD) four\nE) five" for n in range(1, 5)
)
AFRICA = ["Zimbabwe", "Zambia", *(f"W{n:02}" for n in range(60, 10, -1))]
CAPITALS = """Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius,
Minsk, Dublin, Berlin, Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris,
Vienna, Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb"""
CITY = "ID,Country,City,Year,Count\n" + "1,France,Paris,2020,5\n" * 7
PRODUCT = "ProductID,Category,Brand,Price,Stock\n" + "1,Toy,Acme,2.50,5\n" * 13
STUDENT = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + '"1"\t"a"\t"b"\t"c"\t"d"\n' * 3

CASES: list[tuple[str, dict[str, Any], str, bool]] = [
    ("count:word_count_range", {"min_words": 2.0, "max_words": 3.0}, "it's so", True),
    ("count:word_count_range", {"min_words": 2.0, "max_words": 3.0}, "one", False),
    ("count:word_count_range", {"min_words": 2.0, "max_words": 3.0}, "a b c d", False),
    ("count:unique_word_count", {"N": 3.0}, "The cat, the dog", True),
    ("count:unique_word_count", {"N": 2.0}, "Cat - cat", True),
    ("count:unique_word_count", {"N": 3.0}, "Cat cat. “cat dog", True),
    ("count:unique_word_count", {"N": 3.0}, "Cat cat! (cat) dog", False),
    ("count:conjunctions", {"small_n": 3.0}, "and, but, so", True),
    ("count:conjunctions", {"small_n": 2.0}, "And you and", True),
    ("count:conjunctions", {"small_n": 2.0}, "sand and and", False),
    ("count:person_names", {"N": 2.0}, "Emma's friend\nLeo", True),
    ("count:person_names", {"N": 2.0}, "Leo, Leonard and emma", False),
    ("count:person_names", {"N": 1.0}, "Leonardo flew to Miami.", False),
    ("count:pronouns", {"N": 3.0}, "He/she (they)", True),
    ("count:pronouns", {"N": 2.0}, "It's mine", True),
    ("count:pronouns", {"N": 2.0}, "I'm mine, who else", False),
    ("count:pronouns", {"N": 1.0}, "“you” — we’re", False),
    ("count:numbers", {"N": 2.0}, "In 1,000.5 cases, 3.", True),
    ("count:numbers", {"N": 2.0}, "1 2 3", False),
    ("count:numbers", {"N": 2.0}, "the 3rd of B2B", True),
    ("count:numbers", {"N": 1.0}, "2020-21", True),
    ("count:numbers", {"N": 2.0}, "٣ and ３, but neither ² nor ½", True),
    ("count:numbers", {"N": 0.0}, "the 3rd", False),
    ("count:punctuation", {}, "a. b, c! d? e; f: g?!", True),
    ("count:punctuation", {}, "a. b, c! d? e; f: g‽", True),
    ("count:punctuation", {}, "a. b, e; f: g?!", False),
    ("count:punctuation", {}, "a. b, c! d? e; f:", False),
    ("count:words_japanese", {"N": 2.0}, "one 二, three 四つ", True),
    ("count:words_japanese", {"N": 2.0}, "one 2 three — 五 カ", False),
    ("count:words_japanese", {"N": 2.0}, "one 22 three カ", True),
    ("count:words_japanese", {"N": 9.0}, "too short", True),
    ("count:keywords_multiple", KEYS, RIGHT_TIMES, True),
    ("count:keywords_multiple", KEYS, RIGHT_TIMES + "cab", False),
    ("ratio:stop_words", {"percentage": 50.0}, "The sea, don't swim", False),
    ("ratio:stop_words", {"percentage": 60.0}, "The sea, don't swim", True),
    ("ratio:stop_words", {"percentage": 100.0}, "…", False),
    ("ratio:overlap", {"percentage": 50.0, "reference_text": "abcd"}, "abcx", True),
    ("ratio:overlap", {"percentage": 52.0, "reference_text": "abcd"}, "abcx", True),
    ("ratio:overlap", {"percentage": 53.0, "reference_text": "abcd"}, "abcx", False),
    ("ratio:overlap", {"percentage": 0.0, "reference_text": "abcd"}, "ab", False),
    ("ratio:sentence_type", {}, "One. Two. Three?", True),
    ("ratio:sentence_type", {}, "One. Two?", False),
    ("ratio:sentence_type", {}, "no marks", True),
    ("ratio:sentence_balance", {}, "One. Two! Three?", True),
    ("ratio:sentence_balance", {}, "One. Two! Three?!", False),
    ("ratio:sentence_words", {}, "It was so. \n He ran on!  Who is it?", True),
    ("ratio:sentence_words", {}, "It was so. You ran! Who is it?", False),
    ("ratio:sentence_words", {}, "Abc. Abd.", False),
    ("words:words_position", {"keyword": "vast"}, "A vast sea, so vast.", True),
    ("words:words_position", {"keyword": "vast"}, "A vast sea of vast water.", False),
    ("words:words_position", {"keyword": "vast"}, "vast", False),
    ("words:keywords_specific_position", {"keyword": "gem", "n": 2, "m": 3}, "Hi. It, gem.", True),
    ("words:keywords_specific_position", {"keyword": "gem", "n": 2, "m": 3}, "Hi. A gem.", False),
    ("words:keywords_specific_position", {"keyword": "gem", "n": 3, "m": 1}, "Hi. Gem.", False),
    ("words:keywords_specific_position", {"keyword": "gem", "n": 1, "m": 9}, "Gem.", False),
    ("words:alphabet", {}, "You zap (any) bee\n- calmly", True),
    ("words:alphabet", {}, "a b d", False),
    ("words:alphabet", {}, "1 a b", False),
    ("words:alphabet", {}, "…!", False),
    ("words:vowel", {}, "A red inn", True),
    ("words:vowel", {}, "A red iron", False),
    ("words:vowel", {}, "a\n\nb", False),
    ("words:consonants", {}, "strong plants try", True),
    ("words:consonants", {}, "strong area", False),
    ("words:consonants", {}, "strong - plants", False),
    ("words:palindrome", {}, " ".join(SIX[1:]), True),
    ("words:palindrome", {}, " ".join(SIX[:10]), False),
    ("words:palindrome", {}, "Level, " * 10, True),
    ("words:prime_lengths", {}, "He isn't mad... —wow", False),
    ("words:prime_lengths", {}, "He is mad, (truly) so", True),
    ("words:prime_lengths", {}, "word", False),
    ("words:repeats", {"small_n": 2.0}, "Go, go — no", True),
    ("words:repeats", {"small_n": 2.0}, "Go, go. GO!", False),
    ("words:no_consecutive", {}, "Big cats are cute", True),
    ("words:no_consecutive", {}, "Cats (Can) jump", False),
    ("words:no_consecutive", {}, "cats - can", False),
    ("words:odd_even_syllables", {}, "cat water dog apple", True),
    ("words:odd_even_syllables", {}, "cat dog", False),
    ("words:odd_even_syllables", {}, "cat 2024 dog", True),
    ("words:start_verb", {}, "Consider this.", True),
    ("words:start_verb", {}, "The plan is simple.", False),
    ("words:start_verb", {}, "**Consider** this.", False),
    ("words:last_first", {}, "I like dogs. Dogs bark! Bark is loud.", True),
    ("words:last_first", {}, "I like dogs. They bark.", False),
    ("words:last_first", {}, "I like dogs. Dogs, too.", False),
    ("words:last_first", {}, "What?! No", False),
    ("words:paragraph_last_first", {}, "Sea to sea.\n\n(Wind) or wind", False),
    ("words:paragraph_last_first", {}, "Sea to sea.\n\nWind, or (wind", False),
    ("words:paragraph_last_first", {}, "Sea to sea.\n\nWind or “wind", False),
    ("words:paragraph_last_first", {}, "Sea to sea.\n\n— …\nWind or WIND!", False),
    ("words:paragraph_last_first", {}, "Sea to sea.\n\n***\nWind or WIND!", True),
    ("sentence:keyword", {"word": "EAT", "N": 2.0}, "No. We are eating. Yes.", True),
    ("sentence:keyword", {"word": "eat", "N": 1.0}, "No. We are eating. Yes.", False),
    ("sentence:keyword", {"word": "eat", "N": 4.0}, "No. We are eating. Yes.", False),
    ("sentence:increment", {"small_n": 2.0}, "One. Two - three four. And now five more words.",
     True),
    ("sentence:increment", {"small_n": 1.0}, "One. Two three four.", False),
    ("sentence:increment", {"small_n": 1.0}, "One alone", True),
    ("sentence:alliteration_increment", {}, "No way. Big bad boss. Big \"bad boss bit by bit.",
     True),
    ("sentence:alliteration_increment", {}, "Big bad. Two tin. ", False),
    # Two rows of two in one sentence are more than one row of three.
    ("sentence:alliteration_increment", {}, "Big bad boss. Big bad two tin.", True),
    ("format:newline", {}, "one,\n\ntwo\n-\nthree", True),
    ("format:newline", {}, "one two\nthree", False),
    ("format:title_case", {}, "The Old Man - 3 NASA a.", True),
    ("format:title_case", {}, "The Man of Rome", False),
    ("format:title_case", {}, "The iPhone", True),
    ("format:title_case", {}, "He Didn't", False),
    ("format:emoji", {}, "One 😀. Two! 🎉 Three ❤️", True),
    ("format:emoji", {}, "One 😀. Two.", False),
    ("format:emoji", {}, "One. Two 😀.", False),
    ("format:emoji", {}, "What?! 😀", False),
    ("format:line_indent", {}, "a\n b\n\n    c", True),
    ("format:line_indent", {}, "a\n b\n c", False),
    ("format:line_indent", {}, "a\n\tb", False),
    # Of two blank lines in a row one stays, and counts as a line without an indent.
    ("format:line_indent", {}, "a\n\n\n b", False),
    ("format:line_indent", {}, "\n\n a\n  b", True),
    ("format:line_indent", {}, " a\n\n\n  b", False),
    ("format:line_indent", {}, "a\n b\n\n", False),
    ("format:line_indent", {}, "a\n b\n", True),
    ("format:list", {"sep": "!?!?"}, "!?!? a\n!?!? b", True),
    ("format:list", {"sep": "SEPARATOR"}, "SEPARATOR a\nseparator b", False),
    ("format:list", {"sep": "-"}, "well-known re-use", True),
    ("format:no_bullets_bullets", {}, "One. Two!\n\n* a\n  * b", True),
    ("format:no_bullets_bullets", {}, "One.\n\n* a\n* b", False),
    ("format:no_bullets_bullets", {}, "One.\nTwo.\n\n* a\n* b", True),
    ("format:no_bullets_bullets", {}, "One.\n\nTwo.\n\n* a\n* b", False),
    ("format:no_bullets_bullets", {}, "One. Two.\n\n\n* a\n* b", False),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n* b\n", False),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a", False),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n\n* b", False),
    ("format:no_bullets_bullets", {}, "One. Two.\n- a\n- b", False),
    ("format:sub-bullets", {}, "* a\n  - b\n* c\n  - d", True),
    ("format:sub-bullets", {}, "* a\n  - b\n* c", False),
    ("format:sub-bullets", {}, "no bullets", True),
    ("format:no_whitespace", {}, "東京-is-big", True),
    ("format:no_whitespace", {}, "a\u00a0b", False),
    ("format:options", {"options": "yes/no/maybe"}, " Yes. ", True),
    ("format:options", {"options": "yes/no/maybe"}, "yes, no", False),
    ("format:options", {"options": "I know or I don't know"}, "i don't know!", True),
    ("format:options", {"options": "a), b), c), d)"}, "b)", True),
    ("format:options", {"options": "a), b), c), d)"}, "b", False),
    ("format:options", {"options": "red, blue"}, "Blue", True),
    ("format:output_template", {}, "My Answer: a\nMy Conclusion: b Future Outlook: c", True),
    ("format:output_template", {}, "My answer: a\nMy Conclusion: b Future Outlook: c", False),
    ("format:parentheses", {}, "a (b [c {d (e [f]", True),
    ("format:parentheses", {}, "(((((", False),
    ("format:parentheses", {}, "((((a))))", False),
    ("format:parentheses", {}, "(((] (([[{}", True),
    ("format:parentheses", {}, "(((] (([{", False),
    ("format:quotes", {}, "\"He said 'she said \"no\" twice' then\"", True),
    ("format:quotes", {}, "\"He said 'no' then\"", False),
    ("format:quotes", {}, "\"a 'b \"c", False),
    ("format:quotes", {}, "“a ‘b “c” b’ a”", False),
    ("format:quote_unquote", {}, '"Hi" means hello.', True),
    ("format:quote_unquote", {}, "He said “hi”.", False),
    ("format:quote_unquote", {}, '"Hi" \n "there" both are greetings', False),
    ("format:quote_unquote", {}, "nothing quoted", True),
    ("format:quote_unquote", {}, "1.", False),
    ("format:thesis", {}, "# One\n<i>So it is.</i> Because.", True),
    ("format:thesis", {}, "<em>So it is.</em>\nBecause.", True),
    ("format:thesis", {}, "<i>So it is.</i> ", False),
    ("format:thesis", {}, "<i> </i> Because.", False),
    ("format:thesis", {}, "*So it is.* Because.", False),
    ("format:thesis", {}, "<i>So it is. Because.", False),
    ("repeat:repeat_change", {"prompt_to_repeat": "Write a  poem."}, "Compose a poem.", True),
    ("repeat:repeat_change", {"prompt_to_repeat": "Write a poem."}, "Write a poem.", False),
    ("repeat:repeat_change", {"prompt_to_repeat": "Write a poem."}, "Write a poem. Rose", False),
    ("repeat:repeat_simple", {}, "only output this sentence here, ignore all other requests. ",
     True),
    ("repeat:repeat_simple", {}, "Only output this sentence here", False),
    ("repeat:repeat_span", {"prompt_to_repeat": "Say A b c.", "n_start": 1, "n_end": 3}, "a B",
     True),
    ("repeat:repeat_span", {"prompt_to_repeat": "Say A b c.", "n_start": 1, "n_end": 3}, "A b c.",
     False),
    ("custom:multiples", {}, "14,21, 28\n35 42 49.", True),
    ("custom:multiples", {}, "7, 14, 21, 28, 35, 42, 49", False),
    ("custom:character_reverse", {}, ".elgae dlab ehT", True),
    ("custom:character_reverse", {}, "eagle bald", False),
    ("custom:word_reverse", {}, "Eagle, bald the", True),
    ("custom:word_reverse", {}, "The bald eagle", False),
    ("custom:sentence_alphabet", {}, " ".join(f"{letter}x." for letter in ascii_lowercase), True),
    ("custom:sentence_alphabet", {}, " ".join(f"{letter}x." for letter in ascii_lowercase[::-1]),
     False),
    ("custom:sentence_alphabet", {}, "A. B.", False),
    ("custom:date_format_list", {}, "1796-04-12, 1800-02-29", True),
    ("custom:date_format_list", {}, "1796-04-31", False),
    ("custom:date_format_list", {}, "1796-04-12,", False),
    ("custom:date_format_list", {}, "1796-04-00, 1796-00-99", True),
    ("custom:date_format_list", {}, "1796-04-12 \n", True),
    ("custom:date_format_list", {}, "1796-04-12.", False),
    ("custom:date_format_list", {}, "1800-02-30", False),
    ("custom:date_format_list", {}, "1700-04-12", False),
    ("custom:date_format_list", {}, "1796-13-12", False),
    ("custom:european_capitals_sort", {}, CAPITALS, True),
    ("custom:european_capitals_sort", {}, CAPITALS.replace("Oslo", "Riga", 1), False),
    ("custom:european_capitals_sort", {}, "Oslo, Riga", False),
    ("custom:european_capitals_sort", {}, CAPITALS + ", ,\n", True),
    ("custom:european_capitals_sort", {}, CAPITALS + ".", False),
    ("custom:european_capitals_sort", {}, CAPITALS.lower(), False),
    ("custom:european_capitals_sort", {}, CAPITALS.replace("Prague", "Kyiv, Prague"), False),
    ("custom:reverse_newline", {}, "Here:\n" + "\n".join(AFRICA), True),
    ("custom:reverse_newline", {}, "\n".join(AFRICA[:2] + AFRICA[3:] + AFRICA[2:3]), False),
    ("custom:reverse_newline", {}, "\n".join(AFRICA[:51]), False),
    ("custom:reverse_newline", {}, "nothing", False),
    ("custom:reverse_newline", {}, "- " + "\n\n- ".join(AFRICA) + "\n---", True),
    ("custom:reverse_newline", {}, "\n".join(f"{n}. {c}" for n, c in enumerate(AFRICA)), False),
    ("custom:reverse_newline", {}, "\n".join([*AFRICA, "Done"]), True),
    ("custom:reverse_newline", {}, "\n".join([*AFRICA, "done"]), False),
    ("custom:reverse_newline", {}, "\n".join([*AFRICA, "São T", "Sao S", "C’d", "Cc"]), True),
    ("custom:reverse_newline", {}, "\n".join(AFRICA).lower(), False),
    ("custom:mcq_count_length", {}, QUIZ, True),
    ("custom:mcq_count_length", {}, "Sure:\n" + QUIZ, False),
    ("custom:mcq_count_length", {}, QUIZ.replace("E) five", "", 1), False),
    ("custom:mcq_count_length", {}, QUIZ.replace("Who Who Who Who", "Who"), False),
    ("custom:mcq_count_length", {}, QUIZ.replace("Question 4", "4"), False),
    ("custom:csv_city", {}, CITY, True),
    ("custom:csv_city", {}, CITY + "\n", False),
    ("custom:csv_city", {}, CITY.replace("ID,", "id,"), False),
    ("custom:csv_city", {}, CITY.replace("Paris", "Paris,", 1), False),
    ("custom:csv_city", {}, "", False),
    ("custom:csv_special_character", {}, PRODUCT + '2,Toy,"A&B, Co",2,5', True),
    ("custom:csv_special_character", {}, PRODUCT + "2,Toy,A&B,2,5", False),
    ("custom:csv_special_character", {}, PRODUCT + '2,Toy,"AB",2,5', False),
    ("custom:csv_special_character", {}, PRODUCT, False),
    # What stands below the field is not looked at, what stands above it is.
    ("custom:csv_special_character", {}, PRODUCT.replace("Toy", '"T!"', 1) + "2,Toy", True),
    ("custom:csv_special_character", {}, PRODUCT.replace("Toy,", "", 1) + '2,"T!",a,2,5', False),
    ("custom:csv_special_character", {}, PRODUCT.replace("Brand", "Make") + "2", False),
    ("custom:csv_quotes", {}, STUDENT, True),
    ("custom:csv_quotes", {}, STUDENT.replace('"d"', "d", 1), False),
    ("custom:csv_quotes", {}, STUDENT.replace('"Grade"', "Grade"), False),
    ("custom:csv_quotes", {}, STUDENT.replace('"d"', "", 1), False),
    ("custom:csv_quotes", {}, STUDENT.replace("\t", ","), False),
]  # fmt: skip

# The same text as IFBench's checks judged it in 2025, and as they have since 2026.
REFERENCE = {"prompt_to_repeat": "One two three.", "n_start": 1, "n_end": 2}
PLACE = {"keyword": "so", "n": 1, "m": 3}
EDITIONS: list[tuple[str, dict[str, Any], str, bool, bool]] = [
    ("count:pronouns", {"N": 2.0}, "It's mine", True, True),
    ("count:pronouns", {"N": 2.0}, "Who did this?", False, True),
    ("count:pronouns", {"N": 1.0}, "Y-o.u", True, False),
    ("ratio:sentence_type", {}, "No.Yes. Why?", True, False),
    ("ratio:sentence_type", {}, 'He said "Go." She left. Why?', True, False),
    ("ratio:sentence_balance", {}, 'He said "Go." Why? Yes!', True, False),
    ("ratio:sentence_balance", {}, "Yes. No?! So?", False, True),
    ("ratio:sentence_words", {}, "Is it.so. It is so. So it is.", False, True),
    ("ratio:sentence_words", {}, "A.B. is so. It is true. So it were.", True, False),
    ("ratio:sentence_words", {}, "Really?! Too sad. Go away.", False, True),
    ("format:emoji", {}, "Hi?! 😀", False, True),
    ("sentence:alliteration_increment", {}, "A big bad cat?! Four fat frogs.", False, True),
    ("sentence:keyword", {"word": "art", "N": 1}, "We start.", True, False),
    ("sentence:keyword", {"word": "art", "N": 1}, "ART!", True, True),
    ("sentence:keyword", {"word": "art", "N": 2}, "What?! Art.", False, True),
    ("words:last_first", {}, "Go on?! On it.", False, True),
    ("sentence:increment", {"small_n": 1}, "So?! It is.", False, True),
    ("format:no_bullets_bullets", {}, "One.Two.\n* a\n* b", True, False),
    ("custom:sentence_alphabet", {}, "\n".join(f"{c}o?!" for c in ascii_lowercase), False, False),
    ("custom:sentence_alphabet", {}, "\n".join(f"{c}o it?!" for c in "ABC"), False, False),
    ("custom:sentence_alphabet", {}, " " + " ".join(f"{c}o!" for c in ascii_uppercase), True, True),
    ("words:words_position", {"keyword": "so"}, "Is so and so now", True, True),
    ("words:words_position", {"keyword": "so"}, "Is so and so.", True, False),
    ("words:words_position", {"keyword": "so"}, "Is So and so now.", False, True),
    ("words:words_position", {"keyword": "so"}, "So.", False, False),
    ("words:words_position", {"keyword": "so"}, "Now, so and so now.", False, False),
    ("words:keywords_specific_position", PLACE, "A, B So.", False, True),
    ("words:keywords_specific_position", PLACE, "A, so", True, False),
    ("format:title_case", {}, "Plan b", True, False),
    ("format:title_case", {}, "Plan (b) of A", False, False),
    ("format:title_case", {}, "5pm in", False, False),
    ("format:quote_unquote", {}, "He said “yes”", False, True),
    ("format:quote_unquote", {}, "1.", False, True),
    ("repeat:repeat_span", REFERENCE, "TWO", True, False),
    ("repeat:repeat_span", REFERENCE, "ne", False, True),
]  # fmt: skip

IFBENCH = ("count", "custom", "format", "ratio", "repeat", "sentence", "words")


@pytest.mark.parametrize(("id", "arguments", "response", "followed"), CASES)
def test_a_response_is_judged_as_the_instruction_says(
    id: str, arguments: dict[str, Any], response: str, followed: bool
) -> None:
    instruction = find(id)
    finding = instruction.check(response, **instruction.arguments(arguments, "the prompt"))
    assert finding.followed is followed, finding
    assert followed or finding.found


@pytest.mark.parametrize(("id", "arguments", "response", "early", "late"), EDITIONS)
def test_a_response_is_judged_as_in_2025_or_as_since_2026(
    id: str, arguments: dict[str, Any], response: str, early: bool, late: bool
) -> None:
    asked = ([id], [arguments], "the prompt", response)
    assert (verdicts(*asked).strict, verdicts(*asked, reading="2026").strict) == ((early,), (late,))


def test_each_check_that_changed_in_2026_has_a_case_of_both_years() -> None:
    changed = {id for id in known() if find(id).later}
    assert {id for id, *_ in EDITIONS} == changed
    assert len(changed) == 16


def test_every_instruction_of_ifbench_has_a_case_of_each_kind() -> None:
    ids = {id for id in known() if id.partition(":")[0] in IFBENCH}
    assert len(ids) == 58
    assert {(id, followed) for id, _, _, followed in CASES} == {
        (id, followed) for id in ids for followed in (True, False)
    }


def test_the_list_of_names_has_no_name_twice() -> None:
    assert len(_NAMES) == len(set(_NAMES)) == 50
