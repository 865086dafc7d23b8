from __future__ import annotations

import csv
import json
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import weights
from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.scoring import score_predictions
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from programs import ddxplus
from programs._patients import ALSO

SMALL = "smollm2-135m"


def condition(english: str, french: str) -> dict[str, str]:
    return {"condition_name": english, "cond-name-eng": english, "cond-name-fr": french}


def evidence(question: str, kind: str = "B", **more: Any) -> dict[str, Any]:
    plain = {"question_en": question, "data_type": kind, "value_meaning": {},
             "possible-values": [], "is_antecedent": False}  # fmt: skip
    return {**plain, **more}


CONDITIONS = {
    "URTI": condition("URTI", "IVRS ou virémie"),
    "Larygospasm": condition("Larygospasm", "Laryngospasme"),
    "Pneumonia": condition("Pneumonia", "Pneumonie"),
    "PSVT": condition("PSVT", "TSVP"),
}
EVIDENCES = {
    "E_201": evidence("Do you have a cough?"),
    "E_54": evidence(
        "Characterize your pain:",
        "M",
        value_meaning={"V_11": {"en": "NA"}, "V_161": {"en": "sensitive"}, "V_9": {"en": "dull"}},
    ),
    "E_56": evidence("How intense is the pain?", "C", **{"possible-values": [0, 1, 2, 10]}),
    "E_79": evidence("Do you smoke cigarettes?", is_antecedent=True),
    "E_204": evidence(
        "Have you traveled?",
        "C",
        value_meaning={"V_10": {"en": "N"}, "V_12": {"en": "Y"}, "V_6": {"en": "Asia"}},
        is_antecedent=True,
    ),
}
FRENCH = {"toux": evidence("Do you have a cough?")}


def patient(**changes: Any) -> dict[str, Any]:
    plain = {
        "AGE": "34",
        "DIFFERENTIAL_DIAGNOSIS": "[['URTI', 0.9]]",
        "SEX": "F",
        "PATHOLOGY": "Pneumonia",
        "EVIDENCES": "['E_79', 'E_54_@_V_161', 'E_56_@_2', 'E_54_@_V_9', 'E_201', 'E_204_@_V_10']",
        "INITIAL_EVIDENCE": "E_201",
    }
    return {**plain, **changes}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


PATIENTS = [
    patient(),
    patient(PATHOLOGY="URTI", AGE="7", SEX="M", EVIDENCES="['E_201', 'E_54_@_V_11']"),
    patient(PATHOLOGY="Pneumonia", AGE="8"),
    patient(PATHOLOGY="PSVT", EVIDENCES="['E_201', 'E_204_@_V_12']"),
    patient(PATHOLOGY="Pneumonia", AGE="9"),
    patient(PATHOLOGY="Larygospasm", EVIDENCES="['E_201', 'E_204_@_V_6']"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the published archive unpacks."""
    (tmp_path / "release_conditions.json").write_text(json.dumps(CONDITIONS))
    (tmp_path / "release_evidences.json").write_text(json.dumps(EVIDENCES))
    write(tmp_path / "release_test_patients.csv", PATIENTS)
    return tmp_path


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "ddxplus" / "val_588_patients.csv").is_file():
        pytest.skip("needs the DDXPlus data: set DRPG_DATA to the folder that holds ddxplus/")
    return place


# -- loading ------------------------------------------------------------------------------------


def test_a_profile_tells_what_the_patient_said_and_not_what_they_have(folder: Path) -> None:
    example = ddxplus.load(folder)[0]
    assert dict(example.inputs().items()) == {
        "profile": "Age: 34. Sex: female.\n"
        "Reason for consulting: Do you have a cough? Yes\n"
        "Symptoms:\n"
        "- Characterize your pain: sensitive, dull\n"
        "- How intense is the pain? 2 of 10\n"
        "Antecedents:\n"
        "- Do you smoke cigarettes? Yes\n"
        "- Have you traveled? No",
        "options": "1. Larygospasm\n2. PSVT\n3. Pneumonia\n4. URTI",
    }
    assert (example.id, example.diagnosis) == ("test-0", "3. Pneumonia")
    assert (example.number, example.pathology) == (3, "Pneumonia")
    assert ddxplus.key(example.inputs()) == example.profile


def test_an_answer_that_says_nothing_is_left_out(folder: Path) -> None:
    assert ddxplus.load(folder)[1].profile == (
        "Age: 7. Sex: male.\nReason for consulting: Do you have a cough? Yes"
    )


def test_the_stream_takes_as_many_patients_of_each_disease(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ddxplus.PER_DISEASE * 49 == 1764
    monkeypatch.setattr(ddxplus, "PER_DISEASE", 1)
    assert [e.id for e in ddxplus.load(folder)] == ["test-0", "test-1", "test-3", "test-5"]
    assert [e.id for e in ddxplus.load(folder, limit=2)] == ["test-0", "test-1"]
    assert [e.id for e in ddxplus.load(folder, split="test", limit=3)] == [
        "test-0", "test-1", "test-2",
    ]  # fmt: skip
    assert ddxplus.load(folder, limit=0) == []


def test_french_names_and_codes_an_archive_and_the_hubs_file_names_are_read(folder: Path) -> None:
    (folder / "release_evidences.fr_names.json").write_text(json.dumps(FRENCH))
    french = {"PATHOLOGY": "Laryngospasme", "EVIDENCES": "['toux']", "INITIAL_EVIDENCE": "toux"}
    write(folder / "validate.csv", [patient(**french, OriginalRowKey="812")])
    (example,) = ddxplus.load(folder, split="validate")
    assert (example.id, example.diagnosis) == ("validate-812", "1. Larygospasm")
    with zipfile.ZipFile(folder / "release_train_patients.zip", "w") as archive:
        archive.write(folder / "release_test_patients.csv", "release_train_patients")
    assert [e.profile for e in ddxplus.load(folder, split="train")] == [
        e.profile for e in ddxplus.load(folder, split="test")
    ]


def test_missing_data_says_what_gets_it(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match=r"hf download aai530-group6/ddxplus"):
        ddxplus.load(tmp_path / "nowhere")
    with pytest.raises(BenchmarkDataMissing, match=r"train split.*figshare"):
        ddxplus.load(folder, split="train")
    (folder / "release_evidences.json").unlink()
    with pytest.raises(BenchmarkDataMissing, match=r"holds no release_evidences\.json"):
        ddxplus.load(folder)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (patient(PATHOLOGY="Gout"), r"row 1: PATHOLOGY 'Gout' is not among the conditions"),
        (patient(AGE="old"), r"row 1: AGE must be a whole number, got 'old'"),
        (patient(SEX="X"), r"row 1: SEX must be F or M, got 'X'"),
        (patient(EVIDENCES="E_201"), r"row 1: EVIDENCES is no list: 'E_201'"),
        (patient(EVIDENCES="__import__('os')"), r"row 1: EVIDENCES is no list"),
        (patient(EVIDENCES="[1]"), r"row 1: EVIDENCES must be a list of codes"),
        (patient(EVIDENCES="['E_0']"), r"row 1: EVIDENCES has 'E_0'"),
        (patient(EVIDENCES="['E_54_@_V_0']"), r"row 1: EVIDENCES E_54 has the value 'V_0'"),
        (patient(EVIDENCES="['E_56_@_x']"), r"row 1: EVIDENCES E_56 has the value 'x'"),
        (patient(INITIAL_EVIDENCE=""), r"row 1: no INITIAL_EVIDENCE; it needs the columns AGE"),
        ({"AGE": "3", "SEX": "F"}, r"row 1: no PATHOLOGY"),
    ],
)
def test_a_row_that_cannot_be_used_names_itself_and_the_field(
    folder: Path, bad: dict[str, Any], said: str
) -> None:
    write(folder / "release_test_patients.csv", [bad])
    with pytest.raises(ValueError, match=said):
        ddxplus.load(folder)


def test_wrong_arguments_and_doubled_ids_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="stream, test, validate, train; got 'dev'"):
        ddxplus.load(folder, split="dev")
    with pytest.raises(ValueError, match="got -1"):
        ddxplus.load(folder, limit=-1)
    write(folder / "validate.csv", [patient(OriginalRowKey="8"), patient(OriginalRowKey="8")])
    with pytest.raises(ValueError, match="row 2: the OriginalRowKey in 'validate-8' comes twice"):
        ddxplus.load(folder, split="validate")


@pytest.mark.benchmark_data
def test_the_sample_holds_each_disease_twelve_times_and_gold_scores_one(
    real: Path, tmp_path: Path
) -> None:
    examples = ddxplus.load(real)
    assert Counter(Counter(e.pathology for e in examples).values()) == {12: 49}
    assert examples[0].options.splitlines()[34] == "35. Pneumonia"
    for form, compares in ((lambda e: e.diagnosis, ("repaired", "faithful")),
                           (lambda e: e.pathology, ("repaired",)),
                           (lambda e: e.number, ("repaired",))):  # fmt: skip
        path = tmp_path / "gold.jsonl"
        lines = [json.dumps({"id": e.id, "prediction": form(e)}) for e in examples]
        path.write_text("\n".join(lines))
        for compare in compares:
            report = score_predictions(ddxplus.BENCHMARK, real, path, compare=compare)
            assert (report.n, report.correct) == (588, 588)


@pytest.mark.benchmark_data
def test_every_name_of_every_disease_is_understood_and_none_is_shown_to_the_program(
    real: Path,
) -> None:
    judge = ddxplus.evaluator(real)
    assert len(judge.options) == 49
    assert set(ALSO) < set(judge.options)
    for number, (name, others) in enumerate(judge.options.items(), 1):
        for written in (name, *others, name.upper(), f"{number}. {name}"):
            assert judge.read(f"I think it is {written}.").number == number, written
    for example in ddxplus.load(real):
        assert "DIFFERENTIAL" not in example.profile
        assert f"{example.diagnosis}" not in example.profile


@pytest.mark.benchmark_data
def test_the_example_of_the_card_is_the_first_patient(real: Path) -> None:
    first = ddxplus.load(real, limit=1)[0]
    card = " ".join((ddxplus.__doc__ or "").split())
    assert " ".join(first.profile.split("\nSymptoms")[0].split()) in card
    assert first.diagnosis in card


# -- predictions --------------------------------------------------------------------------------


def test_json_lines_may_come_in_any_order_and_lack_some(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text('{"id": "test-2", "prediction": 3}\n{"id": "test-0", "prediction": "URTI"}\n')
    found = ddxplus.read_predictions(path, ddxplus.load(folder, limit=3))
    assert [p.diagnosis for p in found] == ["URTI", None, 3]
    report = score_predictions(ddxplus.BENCHMARK, folder, path)
    assert (report.n, report.correct, report.not_judged) == (6, 1, 0)
    path.write_text('{"id": "validate-0", "prediction": 3}\n')
    with pytest.raises(ValueError, match="no example 'validate-0'"):
        ddxplus.read_predictions(path, ddxplus.load(folder))


# -- the program --------------------------------------------------------------------------------


def test_the_program_shows_the_list_first_and_works_outside_this_library(folder: Path) -> None:
    example = ddxplus.load(folder)[0]
    lm = ScriptedLM([fields(diagnosis="3. Pneumonia")])
    with dspy.context(lm=lm):
        prediction = ddxplus.program()(**example.inputs())
    assert ddxplus.evaluator(folder)(example, prediction).score == 1.0
    (prompt,) = lm.texts()
    assert prompt.rindex(example.options) < prompt.rindex(example.profile)
    inputs = ddxplus.Diagnose.input_fields
    assert list(inputs) == ["options", "examples", "policy", "profile"]
    assert [f.json_schema_extra.get(OPEN_FIELD) for f in inputs.values()] == [
        None, "shots", "policy", None,
    ]  # fmt: skip


def reply(messages: list[dict[str, str]]) -> str:
    """Say pneumonia whatever the patient has; write a policy when asked for rules."""
    if "rules" in messages[-1]["content"]:
        return json.dumps({"rules": ["Pain and travel point to other diseases."]})
    return fields(diagnosis="3. Pneumonia")


@pytest.mark.parametrize(
    "optimizer", [ZeroShot(), SelfStreamICL(k=4), DRPG(k=4)], ids=["zero", "icl", "drpg"]
)
def test_each_method_runs_a_stream_and_shots_hold_no_options(
    folder: Path, optimizer: OnlineOptimizer
) -> None:
    lm = ScriptedLM(reply)
    learner = OnlinePolicyOptimizer(ddxplus.program(), optimizer, key=ddxplus.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, ddxplus.load(folder), ddxplus.evaluator(folder))
    learner.close()
    assert (summary.n, summary.correct, summary.not_judged) == (6, 3, 0)
    last = lm.texts()[-1]
    assert last.count("1. Larygospasm") == 1
    assert last.count("Age: 8.") == (0 if optimizer.name == "zero_shot" else 1)
    assert ("- Pain and travel point" in last) is (optimizer.name == "drpg")
    for prompt in lm.texts():
        assert "Expected:" not in prompt


@pytest.mark.local_lm
def test_a_small_model_is_run_and_judged(folder: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra local-lm is not installed")
    if weights.find(SMALL) is None:
        pytest.skip(f"{SMALL} is not in the cache; get it with: drpg lm pull {SMALL}")
    from drpg_dspy.local_lm import LocalLM

    lm = LocalLM(SMALL, context=1024, threads=1, max_tokens=24)
    learner = OnlinePolicyOptimizer(ddxplus.program(), SelfStreamICL(k=2), key=ddxplus.key)
    examples = ddxplus.load(folder, limit=2)
    with dspy.context(lm=lm):
        summary = run_stream(learner, examples, ddxplus.evaluator(folder))
    learner.close()
    assert summary.n == 2
    assert summary.answering.prompt_tokens > 200
