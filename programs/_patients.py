"""DDXPlus's files in words: what its diseases are called, and what a patient says."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import BenchmarkDataMissing
from programs._files import read_json

__all__ = ["ALSO", "CONDITIONS", "GET_IT", "Book", "field", "profile"]

# The English and the French release share no code, so both may lie in one folder.
CONDITIONS = ("release_conditions.json", "release_conditions.fr_names.json")
_EVIDENCES = ("release_evidences.json", "release_evidences.fr_names.json")
_COLUMNS = ("AGE", "SEX", "PATHOLOGY", "EVIDENCES", "INITIAL_EVIDENCE")
_SEXES = {"F": "female", "M": "male"}
_WORDS = {"N": "No", "Y": "Yes"}
_NOTHING = "NA"
GET_IT = (
    "Get it with: hf download aai530-group6/ddxplus --repo-type dataset --local-dir "
    "data/ddxplus, or unpack the archives of "
    "https://figshare.com/articles/dataset/DDXPlus_Dataset_English_/22687585 there; pass the "
    "folder as --data, or set DRPG_DATA to it."
)
# What a disease is called besides its two names in the data: the same disease, never a wider one.
ALSO = {
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


@dataclass(frozen=True)
class Book:
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
    def read(cls, folder: Path) -> Book:
        """Read the files of a folder, both releases together.

        Raises:
            BenchmarkDataMissing: They are not there.
            ValueError: They are not what they should be; the message names the file.
        """
        found: dict[str, dict[str, None]] = {}
        for name, condition in _described(folder, CONDITIONS).items():
            own = _text(condition, "cond-name-eng", f"{folder}: the condition {name!r}")
            written = (name, condition.get("condition_name"), condition.get("cond-name-fr"))
            found.setdefault(own, {}).update(dict.fromkeys(filter(None, written)))
        names = {name: tuple(found[name]) for name in sorted(found)}
        return cls(
            names={name: (*others, *ALSO.get(name, ())) for name, others in names.items()},
            numbers={name: number for number, name in enumerate(names, 1)},
            options="\n".join(f"{number}. {name}" for number, name in enumerate(names, 1)),
            english={other: name for name, others in names.items() for other in (name, *others)},
            evidences=_described(folder, _EVIDENCES),
        )

    def disease(self, written: str, where: str) -> str:
        """Return the English name of a disease, whichever name a patient file has."""
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


def profile(row: Mapping[str, Any], book: Book, where: str) -> str:
    """Write a patient's own answers, what they came for first, symptoms before antecedents.

    Args:
        row: A row of a patient file.
        book: What its codes mean.
        where: The row, for messages.

    Raises:
        ValueError: A field is missing, not of its kind, or names a code that is unknown.
    """
    age, sex = field(row, "AGE", where), field(row, "SEX", where)
    if not age.isdecimal():
        raise ValueError(f"{where}: AGE must be a whole number, got {age!r}.")
    if sex not in _SEXES:
        raise ValueError(f"{where}: SEX must be F or M, got {sex!r}.")
    answers = _evidences(field(row, "EVIDENCES", where), where)
    first = field(row, "INITIAL_EVIDENCE", where).partition("_@_")[0]
    lines = {code: book.line(code, answers[code], where) for code in answers}
    reason = lines.pop(first, None) or book.line(first, answers.get(first, ()), where)
    past = {code for code in lines if book.evidences[code].get("is_antecedent")}
    parts = [f"Age: {age}. Sex: {_SEXES[sex]}.", f"Reason for consulting: {reason}"]
    for title, codes in (("Symptoms", lines.keys() - past), ("Antecedents", past)):
        said = [f"- {lines[code]}" for code in lines if code in codes and lines[code]]
        if said:
            parts.append("\n".join([f"{title}:", *said]))
    return "\n".join(parts)


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
        raise BenchmarkDataMissing(f"{folder} holds no {' or '.join(names)}. {GET_IT}")
    return entries


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


def field(row: Mapping[str, Any], name: str, where: str) -> str:
    """Return a field of a row, which must be there and not empty."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: no {name}; it needs the columns {', '.join(_COLUMNS)}.")
    return value.strip()


def _text(record: Any, name: str, where: str) -> str:
    value = record.get(name) if isinstance(record, Mapping) else None
    if not isinstance(value, str):
        raise ValueError(f"{where} has no text {name!r}.")
    return value
