from __future__ import annotations

import math
import pickle
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.diagnosis import DiagnosisAccuracy
from evaluators.judgement import Judgement

OPTIONS = {
    "Acute COPD exacerbation / infection": ["Exacerbation aigue de MPOC et/ou surinfection"],
    "Bronchitis": ["Bronchite"],
    "Croup": ["Laryngo-trachéo-bronchite (Croup)"],
    "Guillain-Barré syndrome": ["Syndrome de Guillain-Barré", "Guillain-Barré"],
    "HIV (initial infection)": ["VIH (Primo-infection)"],
    "Larygospasm": ["Laryngospasme", "Laryngospasm"],
    "Pneumonia": ["Pneumonie"],
    "Scombroid food poisoning": ["Scombroïde"],
    "Stable angina": ["Angine stable"],
    "Unstable angina": ["Angine instable"],
}
BRONCHITIS, PNEUMONIA = 2, 7


@pytest.fixture(scope="module")
def judge() -> DiagnosisAccuracy:
    return DiagnosisAccuracy(OPTIONS)


def pneumonia(judge: DiagnosisAccuracy, answer: Any) -> Judgement:
    return judge(dspy.Example(diagnosis="7. Pneumonia"), dspy.Prediction(diagnosis=answer))


@pytest.mark.parametrize(
    "answer",
    [
        "7", "7.", "7. Pneumonia", "<7>", "<7>. Pneumonia", "**7. Pneumonia**", "7) pneumonia",
        "#7", "07", 7, 7.0, ["7. Pneumonia"], '{"answer": "7. Pneumonia"}', "7: Pneumonia",
        "7 - Pneumonia", "7\n", "Answer: 7", "Option 7 (Pneumonia)", "The diagnosis is 7.",
        "Pneumonia", "PNEUMONIA.", "pneumonie", "The patient has (bacterial) pneumonia.",
        "Pneumonia (7)", "At 71 years, with 39.5 °C for 3 days: pneumonia", "７",
        "7. A lung infection", "7. Pneumonia\n[[ ## completed ## ]]",
        "7.\nFever and cough make pneumonia more likely than bronchitis.",
    ],
)  # fmt: skip
def test_a_number_a_name_or_both_are_read(judge: DiagnosisAccuracy, answer: Any) -> None:
    verdict = pneumonia(judge, answer)
    assert (verdict.score, verdict.kind, verdict.subscores) == (1.0, "match", {"readable": 1.0})
    assert verdict.feedback == "Correct: 7. Pneumonia."


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        # A number followed by its own name wins over everything else.
        ("2 of the 10 fit. 7. Pneumonia. Bronchitis (2) is unlikely.", 7),
        ("7. Pneumonia, not Bronchitis", 7),
        ("Not 2, rather 7. Pneumonia", 7),
        # Else the first number of the list.
        ("7. It began 3 days ago at 39", 7),
        ("99 or 7", 7),
        ("2. then 7.", 2),
        # Ages, durations and measures are no numbers of the list.
        ("A 7-year-old with bronchitis", 2),
        ("7 days of cough: bronchitis", 2),
        ("Bronchitis; temperature 37.7", 2),
        # The longest name counts, and no part of a word.
        ("Unstable angina", 10),
        ("stable angina", 9),
        ("Laryngo-trachéo-bronchite (Croup)", 3),
        ("bronchite", 2),
        # Spelling.
        ("ACUTE COPD EXACERBATION/INFECTION", 1),
        ("Guillain Barre syndrome", 4),
        ("syndrome de guillain–barré", 4),
        ("HIV initial infection", 5),
        ("Laryngospasm", 6),
        ("larygospasm", 6),
        ("Scombroide", 8),
        ("5. HIV (initial infection)", 5),
    ],
)
def test_texts_with_more_in_them_are_read_by_the_rules(
    judge: DiagnosisAccuracy, answer: str, number: int
) -> None:
    assert judge.read(answer).number == number


@pytest.mark.parametrize(
    "answer",
    [
        # What is announced as the answer beats the numbers of a list and what was considered.
        "1. Fever suggests an infection\n2. The cough is new\nAnswer: 7",
        "1. Bronchitis: no wheeze\n2. Croup: too old\n\n**Final answer:** 7. Pneumonia",
        "1. Bronchitis\n2. Pneumonia\nFinal diagnosis: pneumonia",
        "Answer: 2. On reflection the fever is too high.\nFinal answer: 7",
        "2. Bronchitis was considered first.\nThe most likely diagnosis is therefore 7.",
        "Diagnosis: bronchitis?\n## Final Answer\n\n7",
        "I considered 2. Bronchitis, but\nANSWER - pneumonia",
        "Answer: 7\n1. fever\n2. cough",
        "Answer: Pneumonia\nDifferential diagnosis: bronchitis, croup",
        "Differential diagnosis: bronchitis, croup\nDiagnosis: pneumonia",
        "The diagnosis is based on 3 findings:\n7",
        "Diagnosis: see below\n7. Pneumonia",
        "Diagnostic : pneumonie",
        "The answer is \\boxed{7}",
        # The numbers of a list name nothing; a number that is all of an item does.
        "1. Fever\n2. Cough\nSo it is pneumonia",
        "1. Fever\n2. Cough\n3. So it must be 7",
        "1. 7", "1. **7**", "1) 7.", " 1. 7\n", "1. 7\nIt is a lung infection.",
        # As a number it may have a point.
        "7.0", "7.0.", "Answer: 7.0", "7.0 Pneumonia", "7.00",
        # What is ruled out is no answer.
        "It is not bronchitis but pneumonia", "Not bronchitis. Pneumonia.", "Not 2, 7",
        "Rule out bronchitis; it is pneumonia", "It is not 2. It is 7.",
        "Pneumonia, not bronchitis", "Pneumonia rather than bronchitis",
        "No sign of bronchitis or croup: pneumonia", "Bronchitis is unlikely, pneumonia fits.",
        "Bronchitis (2) was ruled out, so pneumonia", "Neither bronchitis nor croup: pneumonia",
        "Bronchitis and croup are less likely than pneumonia", "Bronchitis isn\u2019t likely; 7",
        "This isn't bronchitis, it is pneumonia", "Bronchitis doesn't fit. Pneumonia does.",
        "Bronchitis: unlikely\nPneumonia: likely", "Pas de bronchite, mais une pneumonie",
        "The patient does not have bronchitis; pneumonia",
        # Not every "no" and "not" rules out.
        "No doubt: pneumonia", "no. 7", "No 7", "N\u00b0 7", "No, it is pneumonia",
        "I am not sure, but pneumonia", "One cannot rule out pneumonia",
        "Pneumonia is not excluded", "Pneumonia, which is not unlikely",
    ],
)  # fmt: skip
def test_the_announced_answer_counts_and_what_is_ruled_out_does_not(
    judge: DiagnosisAccuracy, answer: str
) -> None:
    assert judge.read(answer).number == PNEUMONIA


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ("Not pneumonia", "ruled out", "It says only what the diagnosis is not."),
        ("No pneumonia.", "ruled out", "only what the diagnosis is not"),
        ("It is not 7", "ruled out", "only what the diagnosis is not"),
        ("It is not 7. Pneumonia", "ruled out", "only what the diagnosis is not"),
        ("Diagnosis: no pneumonia", "ruled out", "only what the diagnosis is not"),
        ("Pneumonia is unlikely", "ruled out", "only what the diagnosis is not"),
        ("not pneumonia or bronchitis", "ruled out", "only what the diagnosis is not"),
        ("It is not 7, it is 2", "different", "got: 2. Bronchitis."),
        ("Rule out pneumonia; it is bronchitis", "different", "got: 2. Bronchitis."),
        ("Not pneumonia; bronchitis and croup remain", "several", "give one"),
        ("I considered 2. Bronchitis but 7. Pneumonia fits best", "several", "give one"),
        ("7 Bronchitis", "contradiction", "do not agree: 7 is Pneumonia."),
        ("Bronchitis (7)", "contradiction", "do not agree: 7 is Pneumonia."),
        ("Answer: 7 bronchitis", "contradiction", "do not agree: 7 is Pneumonia."),
        ("7. Pneumonia\nAnswer: 2", "different", "got: 2. Bronchitis."),
        ("Answer: 2 or 7", "several", "give one"),
        ("Pneumonia\nFinal answer: 11", "out of range", "are 1 to 10, not 11."),
        ("1. 7\n2. 2", "several", "give one"),
        ("1. Fever\n2. Cough", "unknown", "names none"),
        ("Temperature 7.0", "unknown", "names none"),
        ("7.05", "unknown", "names none"),
        ("7.0 cm", "unknown", "names none"),
        ("", "no answer", "got: no answer."),
        (None, "no answer", "got: no answer."),
        ("  ", "no answer", "got: no answer."),
        ("I cannot say.", "unknown", "names none of the 10 diagnoses"),
        ("pneumonia-like", "unknown", "names none"),
        ("bronchopneumonias", "unknown", "names none"),
        (True, "unknown", "names none"),
        ("3.7", "unknown", "names none"),
        ("-7", "unknown", "names none"),
        ("0", "out of range", "are 1 to 10, not 0."),
        ("11. Pneumonia", "out of range", "are 1 to 10, not 11."),
        ("999999999", "out of range", "are 1 to 10"),
        ("2. Pneumonia", "contradiction", "do not agree: 2 is Bronchitis."),
        ("1. Pneumonia\n2. Bronchitis", "contradiction", "do not agree"),
        ("It must be 2. Pneumonia", "contradiction", "do not agree: 2 is Bronchitis."),
        ("Answer: 2\nThe patient has pneumonia.", "contradiction", "do not agree"),
        ("Bronchitis or pneumonia", "several", "It names several diagnoses; give one."),
        ("Pneumonia or bronchitis", "several", "give one"),
        ("7. Pneumonia / 2. Bronchitis", "several", "give one"),
        ("7. Pneumonia or Bronchitis", "several", "give one"),
        ("7. Pneumonia, 2", "several", "give one"),
        ("7, 2", "several", "give one"),
        ("2 or 7", "several", "give one"),
        (["7. Pneumonia", "2. Bronchitis"], "several", "give one"),
        ("2", "different", "got: 2. Bronchitis."),
        ("Bronchitis", "different", "got: 2. Bronchitis."),
    ],
)
def test_what_is_no_single_right_diagnosis_is_wrong_and_says_why(
    judge: DiagnosisAccuracy, answer: Any, kind: str, said: str
) -> None:
    verdict = pneumonia(judge, answer)
    assert (verdict.score, verdict.kind, verdict.informative) == (0.0, kind, True)
    assert verdict.subscores == {"readable": float(kind == "different")}
    assert verdict.feedback.startswith("Expected: 7. Pneumonia, got: ")
    assert said in verdict.feedback


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("7. Pneumonia", 1.0),
        ("<7>.", 0.0),
        ("7. or 2.", 1.0),
        ("After 7.5 hours: 2. Bronchitis", 1.0),
        ("2. Pneumonia", 0.0),
        ("7", 0.0),
        ("Pneumonia", 0.0),
        ("11.", 0.0),
        ("", 0.0),
        ("9" * 5000 + ".", 0.0),
    ],
)
def test_the_faithful_scoring_takes_the_first_number_before_a_full_stop(
    answer: str, score: float
) -> None:
    assert pneumonia(DiagnosisAccuracy(OPTIONS, "faithful"), answer).score == score


def test_every_option_is_right_by_number_by_each_name_and_by_both(judge: DiagnosisAccuracy) -> None:
    for number, (name, others) in enumerate(OPTIONS.items(), 1):
        for written in (str(number), f"{number}. {name}", name, *others, f"It is {name}, I think."):
            verdict = judge(dspy.Example(diagnosis=f"{number}. {name}"), written)
            assert verdict.score == 1.0, written


def test_an_example_outside_the_list_is_not_judged(judge: DiagnosisAccuracy) -> None:
    verdict = judge(dspy.Example(diagnosis="Gout"), "7")
    assert math.isnan(verdict.score)
    assert (verdict.kind, verdict.informative) == ("not judged", False)
    with pytest.raises(EvaluationFailed, match="'Gout' is none of the list"):
        DiagnosisAccuracy(OPTIONS, raises=True)(dspy.Example(diagnosis="Gout"), "7")
    with pytest.raises(ValueError, match="prediction has no 'diagnosis'"):
        judge(dspy.Example(diagnosis="7"), dspy.Prediction(answer="7"))


def test_options_must_be_there_and_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="at least one"):
        DiagnosisAccuracy({})
    with pytest.raises(ValueError, match="share the name 'bronchitis'"):
        DiagnosisAccuracy({"Bronchitis": [], "Croup": ["bronchitis"]})
    with pytest.raises(ValueError, match="no letter"):
        DiagnosisAccuracy({"--": []})
    with pytest.raises(ValueError, match="got 'loose'"):
        DiagnosisAccuracy(OPTIONS, "loose")


@pytest.mark.parametrize(
    "text",
    [
        "\ud800", "\x00", "7 " * 300, "\n" * 20_000, "- " * 5000, "9" * 20_000, "pneumo" * 3000,
        "not " * 5000, "answer: " * 3000, "answer\n" * 3000, "1. 7\n" * 500, "not 7 or " * 500,
        "pneumonia is " * 500, "7 is not " * 500, "( [ <" * 3000,
    ],
)  # fmt: skip
def test_no_text_breaks_the_judge(judge: DiagnosisAccuracy, text: str) -> None:
    assert pneumonia(judge, text).score in (0.0, 1.0)


def test_a_judge_survives_pickling(judge: DiagnosisAccuracy) -> None:
    again = pickle.loads(pickle.dumps(judge))
    assert pneumonia(again, "pneumonie").score == 1.0
    assert (again.compare, again.compare_version) == ("repaired", "2")
