"""DDXPlus: which of 49 diseases does a synthetic patient have?

Paper:      Fansi Tchango et al., "DDXPlus: A New Dataset For Automatic Medical Diagnosis",
            NeurIPS 2022. As a stream: Wu et al., "StreamBench", 2024, and DRPG.
Licence:    CC BY 4.0 (data).
Source:     https://figshare.com/articles/dataset/DDXPlus_Dataset_English_/22687585 (a French
            release exists too; both are read), or ``aai530-group6/ddxplus`` on the Hugging Face
            hub: ``release_conditions.json``, ``release_evidences.json`` and the patients, as
            ``release_test_patients.csv`` (or ``.zip``) or ``test.csv``.
Sizes:      1,025,602 train, 132,448 validate and 134,529 test patients; 49 diseases, 223
            symptoms and antecedents. StreamBench streams 1,764 test patients, 36 for each
            disease on average; which ones is known to its hub data set alone, which is not
            available here. ``../shared/data`` holds 588 validate patients, 12 for each disease.
Example:    profile   Age: 34. Sex: female.
                      Reason for consulting: Do you have a cough that produces colored or more
                      abundant sputum than usual? Yes. …
            diagnosis 1. Acute COPD exacerbation / infection
Metric:     accuracy (:mod:`evaluators.diagnosis`), ``compare="repaired"`` version 1 unless asked
            otherwise; ``"faithful"`` is StreamBench's released code.
Deviations: the profile is written from the evidences in words of our own, as StreamBench's text
            is not available. The diseases are in StreamBench's order, but numbered from 1 (there
            from 0). The stream takes the first 36 patients of each disease from the test file:
            as many as StreamBench's, not the same ones.

Truth is the column PATHOLOGY; the differential diagnosis is not looked at. The data is looked for
in the folder given, or in ``$DRPG_DATA``, ``../shared/data`` and ``data``; each may be the folder
of the files or hold it as ``ddxplus``.
"""

from __future__ import annotations

import ast
import csv
import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.diagnosis import SCORINGS, DiagnosisAccuracy
from programs._files import Data, answers_by_id, find_folder, read_json

__all__ = ["BENCHMARK", "PER_DISEASE", "evaluator", "key", "load", "program", "read_predictions"]

PER_DISEASE = 36
"""Patients of each disease in the stream: 36 x 49 = 1,764, the size of StreamBench's."""

_TEST = ("release_test_patients.csv", "release_test_patients", "release_test_patients.zip",
         "test.csv")  # fmt: skip
_SAMPLE = "val_588_patients.csv"
_VALIDATE = ("release_validate_patients.csv", "release_validate_patients",
             "release_validate_patients.zip", "validate.csv", _SAMPLE)  # fmt: skip
_TRAIN = ("release_train_patients.csv", "release_train_patients", "release_train_patients.zip",
          "train.csv")  # fmt: skip
_FILES = {
    "stream": (*_TEST, _SAMPLE),
    "test": _TEST,
    "validate": _VALIDATE,
    "train": _TRAIN,
}
# The English and the French release share no code, so both may lie in one folder.
_CONDITIONS = ("release_conditions.json", "release_conditions.fr_names.json")
_EVIDENCES = ("release_evidences.json", "release_evidences.fr_names.json")
_COLUMNS = ("AGE", "SEX", "PATHOLOGY", "EVIDENCES", "INITIAL_EVIDENCE")
_SEXES = {"F": "female", "M": "male"}
_WORDS = {"N": "No", "Y": "Yes"}
_NOTHING = "NA"
_GET_IT = (
    "Get it with: hf download aai530-group6/ddxplus --repo-type dataset --local-dir "
    "data/ddxplus, or unpack the archives of "
    "https://figshare.com/articles/dataset/DDXPlus_Dataset_English_/22687585 there; pass the "
    "folder as --data, or set DRPG_DATA to it."
)
# What a disease is called besides its two names in the data: the same disease, never a wider one.
_ALSO = {
    "Acute COPD exacerbation / infection": ("Acute COPD exacerbation", "COPD exacerbation"),
    "Acute dystonic reactions": ("Acute dystonic reaction",),
    "Acute pulmonary edema": ("Acute pulmonary oedema", "OAP", "Surcharge pulmonaire"),
    "Allergic sinusitis": ("Allergic rhinosinusitis",),
    "Anemia": ("Anaemia",),
    "Atrial fibrillation": ("Fibrillation auriculaire", "Flutter auriculaire"),
    "Bronchospasm / acute asthma exacerbation": (
        "Bronchospasm", "Acute asthma exacerbation", "Asthma exacerbation", "Bronchospasme",
        "Asthme exacerbé",
    ),
    "Croup": ("Laryngo-trachéo-bronchite", "Laryngotracheobronchitis"),
    "GERD": ("Gastroesophageal reflux disease", "Gastro-oesophageal reflux disease"),
    "Guillain-Barré syndrome": ("Guillain-Barré",),
    "HIV (initial infection)": ("HIV", "HIV infection", "Acute HIV infection", "VIH"),
    "Larygospasm": ("Laryngospasm",),
    "Localized edema": ("Localised oedema", "Localized oedema"),
    "PSVT": ("Paroxysmal supraventricular tachycardia",),
    "Possible NSTEMI / STEMI": ("NSTEMI", "STEMI", "Possible NSTEMI", "Possible STEMI"),
    "SLE": ("Systemic lupus erythematosus", "Lupus érythémateux disséminé"),
    "Scombroid food poisoning": ("Scombroid poisoning", "Scombroid"),
    "URTI": ("Upper respiratory tract infection", "IVRS"),
}  # fmt: skip


class Diagnose(dspy.Signature):
    """You are a physician. Choose the one diagnosis from the list that fits the patient best."""

    options: str = dspy.InputField(desc="All diagnoses to choose from, one a line.")
    examples: str = ShotsField()
    policy: str = PolicyField()
    profile: str = dspy.InputField(desc="What the patient said.")
    diagnosis: str = dspy.OutputField(
        desc="The number and the name from the list, as in its lines, and nothing else."
    )


class DDXPlus(dspy.Module):
    """One call: list and profile in, diagnosis out."""

    def __init__(self) -> None:
        super().__init__()
        self.diagnose = dspy.Predict(Diagnose)

    def forward(self, profile: str, options: str) -> dspy.Prediction:
        """Diagnose one patient."""
        return self.diagnose(options=options, profile=profile)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    split: str = "stream",
    limit: int | None = None,
) -> list[dspy.Example]:
    """Read patients in the order of their file.

    Args:
        data: The folder of the files, or one that holds it as ``ddxplus``; ``None`` = look in
            the places named above.
        split: ``"stream"``: the first 36 patients of each disease from the test file, or where
            there is none the sample of 588 validate patients; ``"test"``, ``"validate"`` (the
            sample where it is all there is) or ``"train"``: whole files.
        limit: Keep the first so many; the file is read no further.

    Returns:
        Examples with the inputs ``profile`` and ``options``, the label ``diagnosis`` as in
        ``"35. Pneumonia"``, its parts ``number`` and ``pathology``, and a unique ``id`` such as
        ``"test-17"`` (the row in its file, from 0, or the one that the sample was taken from).

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An unknown split, a negative limit, or a row that cannot be used: a field is
            missing, not of its kind, or names a code that the files do not describe, or its id
            comes twice. The message names row and field.
    """
    if split not in _FILES:
        raise ValueError(f"DDXPlus has the splits {', '.join(_FILES)}; got {split!r}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    folder = _folder(data, _FILES[split], f" ({split} split)")
    path = next(folder / name for name in _FILES[split] if (folder / name).is_file())
    book = _Book.read(folder)
    part = "validate" if path.name in _VALIDATE else "train" if path.name in _TRAIN else "test"
    most = PER_DISEASE if split == "stream" else None
    examples: dict[str, dspy.Example] = {}
    seen: Counter[str] = Counter()
    for number, row in enumerate(_rows(path)):
        if len(examples) == limit or (most and seen.total() == most * len(book.numbers)):
            break
        where = f"{path}, row {number + 1}"
        pathology = book.disease(_field(row, "PATHOLOGY", where), where)
        if most and seen[pathology] == most:
            continue
        seen[pathology] += 1
        name = f"{part}-{row.get('OriginalRowKey') or number}"
        if name in examples:
            raise ValueError(f"{where}: the OriginalRowKey in {name!r} comes twice.")
        examples[name] = _example(name, row, pathology, book, where)
    return list(examples.values())


def program() -> dspy.Module:
    """Return the program: one predictor, the list first so that a prefix cache can hold it."""
    return DDXPlus()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "repaired", **options: Any
) -> DiagnosisAccuracy:
    """Return the judge, which knows the diseases by number, English name and French name.

    Args:
        data: As for :func:`load`.
        compare: ``"repaired"`` or ``"faithful"``.
        options: Passed on to :class:`evaluators.diagnosis.DiagnosisAccuracy`.

    Raises:
        BenchmarkDataMissing: The description of the diseases is not there.
    """
    book = _Book.read(_folder(data, _CONDITIONS))
    return DiagnosisAccuracy(book.names, compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the profile alone."""
    return str(inputs["profile"])


def read_predictions(
    path: str | os.PathLike[str], examples: Sequence[dspy.Example]
) -> list[dspy.Prediction]:
    """Read predicted diagnoses, JSON lines ``{"id": …, "prediction": …}`` in any order.

    An example without a prediction gets none, which is wrong.

    Raises:
        ValueError: The file cannot be read, a line has not this form, or an id is unknown or
            comes twice.
    """
    given = answers_by_id(path, [example.id for example in examples], empty=None)
    return [dspy.Prediction(diagnosis=given[example.id]) for example in examples]


BENCHMARK = Benchmark(
    name="ddxplus",
    title="DDXPlus: which of 49 diseases does a patient have?",
    paper="Fansi Tchango et al., NeurIPS 2022",
    licence="CC BY 4.0",
    metric="accuracy",
    k=16,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=tuple(SCORINGS),
    read_predictions=read_predictions,
)


@dataclass(frozen=True)
class _Book:
    """What the files say of diseases and evidences.

    Attributes:
        names: English name to further names, in the order of their numbers.
        numbers: English name to number.
        options: The list as the program is shown it.
        english: Any name that a patient file may use to the English one.
        evidences: Code to description.
    """

    names: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, int]
    options: str
    english: Mapping[str, str]
    evidences: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> _Book:
        found: dict[str, dict[str, None]] = {}
        for name, condition in _described(folder, _CONDITIONS).items():
            own = _text(condition, "cond-name-eng", f"{folder}: the condition {name!r}")
            written = (name, condition.get("condition_name"), condition.get("cond-name-fr"))
            found.setdefault(own, {}).update(dict.fromkeys(filter(None, written)))
        names = {name: tuple(found[name]) for name in sorted(found)}
        return cls(
            names={name: (*others, *_ALSO.get(name, ())) for name, others in names.items()},
            numbers={name: number for number, name in enumerate(names, 1)},
            options="\n".join(f"{number}. {name}" for number, name in enumerate(names, 1)),
            english={other: name for name, others in names.items() for other in (name, *others)},
            evidences=_described(folder, _EVIDENCES),
        )

    def disease(self, written: str, where: str) -> str:
        if written not in self.english:
            raise ValueError(f"{where}: PATHOLOGY {written!r} is not among the conditions.")
        return self.english[written]

    def line(self, code: str, values: Sequence[str], where: str) -> str:
        """Return an evidence as question and answer; ``""`` where the answer says nothing."""
        if code not in self.evidences:
            raise ValueError(f"{where}: EVIDENCES has {code!r}, which release_evidences lacks.")
        evidence = self.evidences[code]
        question = _text(evidence, "question_en", f"{where}: the evidence {code}").strip()
        if evidence.get("data_type") == "B":
            return f"{question} Yes"
        answers = [_answer(evidence, value, f"{where}: EVIDENCES {code}") for value in values]
        said = [answer for answer in answers if answer != _NOTHING]
        return f"{question} {', '.join(said)}" if said else ""


def _folder(data: Data, wanted: Sequence[str], what: str = "") -> Path:
    return find_folder(data, "ddxplus", wanted, title="DDXPlus", get_it=_GET_IT, what=what)


def _described(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the entries of the files that are there, both releases together."""
    entries: dict[str, Any] = {}
    for path in (folder / name for name in names):
        if path.is_file():
            value = read_json(path)
            if not isinstance(value, dict):
                raise ValueError(f"{path} must hold an object, got {type(value).__name__}.")
            entries.update(value)
    if not entries:
        raise BenchmarkDataMissing(f"{folder} holds no {' or '.join(names)}. {_GET_IT}")
    return entries


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as file:
        yield from csv.DictReader(file)


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOBase]:
    if path.suffix != ".zip":
        with path.open(encoding="utf-8", newline="") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        (name, *more) = [n for n in archive.namelist() if not n.startswith("__")] or [""]
        if not name or more:
            raise ValueError(f"{path} must hold one file, holds {len(archive.namelist())}.")
        with archive.open(name) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as file:
            yield file


def _example(
    name: str, row: Mapping[str, Any], pathology: str, book: _Book, where: str
) -> dspy.Example:
    number = book.numbers[pathology]
    return dspy.Example(
        id=name,
        profile=_profile(row, book, where),
        options=book.options,
        diagnosis=f"{number}. {pathology}",
        number=number,
        pathology=pathology,
    ).with_inputs("profile", "options")


def _profile(row: Mapping[str, Any], book: _Book, where: str) -> str:
    """Write a patient's own answers, what they came for first, symptoms before antecedents."""
    age, sex = _field(row, "AGE", where), _field(row, "SEX", where)
    if not age.isdecimal():
        raise ValueError(f"{where}: AGE must be a whole number, got {age!r}.")
    if sex not in _SEXES:
        raise ValueError(f"{where}: SEX must be F or M, got {sex!r}.")
    answers = _evidences(_field(row, "EVIDENCES", where), where)
    first = _field(row, "INITIAL_EVIDENCE", where).partition("_@_")[0]
    lines = {code: book.line(code, answers[code], where) for code in answers}
    reason = lines.pop(first, None) or book.line(first, answers.get(first, ()), where)
    past = {code for code in lines if book.evidences[code].get("is_antecedent")}
    parts = [f"Age: {age}. Sex: {_SEXES[sex]}.", f"Reason for consulting: {reason}"]
    for title, codes in (("Symptoms", lines.keys() - past), ("Antecedents", past)):
        said = [f"- {lines[code]}" for code in lines if code in codes and lines[code]]
        if said:
            parts.append("\n".join([f"{title}:", *said]))
    return "\n".join(parts)


def _evidences(written: str, where: str) -> dict[str, list[str]]:
    """Read the list of codes, each alone or as ``code_@_value``: code to its values."""
    try:
        codes = ast.literal_eval(written)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{where}: EVIDENCES is no list: {written[:80]!r}.") from error
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise ValueError(f"{where}: EVIDENCES must be a list of codes, got {written[:80]!r}.")
    found: dict[str, list[str]] = {}
    for code in codes:
        name, _, value = code.partition("_@_")
        found.setdefault(name, []).extend([value] if value else [])
    return found


def _answer(evidence: Mapping[str, Any], value: str, where: str) -> str:
    meaning = (evidence.get("value_meaning") or {}).get(value)
    if meaning is not None:
        text = _text(meaning, "en", where).strip()
        return _WORDS.get(text, text)
    scale = [n for n in evidence.get("possible-values") or () if isinstance(n, int)]
    if value.isdecimal() and scale:
        return f"{value} of {max(scale)}"
    raise ValueError(f"{where} has the value {value!r}, which release_evidences lacks.")


def _field(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: no {name}; it needs the columns {', '.join(_COLUMNS)}.")
    return value.strip()


def _text(record: Any, name: str, where: str) -> str:
    value = record.get(name) if isinstance(record, Mapping) else None
    if not isinstance(value, str):
        raise ValueError(f"{where} has no text {name!r}.")
    return value
