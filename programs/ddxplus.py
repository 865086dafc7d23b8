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
Metric:     accuracy (:mod:`evaluators.diagnosis`), ``compare="repaired"`` version 2 unless asked
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

import csv
import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.diagnosis import SCORINGS, DiagnosisAccuracy
from programs._files import Data, find_folder, predictions_by_id, text_lines
from programs._patients import CONDITIONS, GET_IT, Book, field, profile

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
    book = Book.read(folder)
    part = "validate" if path.name in _VALIDATE else "train" if path.name in _TRAIN else "test"
    most = PER_DISEASE if split == "stream" else None
    examples: dict[str, dspy.Example] = {}
    seen: Counter[str] = Counter()
    for number, row in enumerate(_rows(path)):
        if len(examples) == limit or (most and seen.total() == most * len(book.numbers)):
            break
        where = f"{path}, row {number + 1}"
        pathology = book.disease(field(row, "PATHOLOGY", where), where)
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
    book = Book.read(_folder(data, CONDITIONS))
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
    return predictions_by_id(path, examples, "diagnosis")


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
"""All of it, for ``drpg run ddxplus``."""


def _folder(data: Data, wanted: Sequence[str], what: str = "") -> Path:
    return find_folder(data, "ddxplus", wanted, title="DDXPlus", get_it=GET_IT, what=what)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as file:
        yield from csv.DictReader(file)


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOBase]:
    if path.suffix != ".zip":
        with path.open("rb") as raw, text_lines(path, raw, newline="") as file:
            yield file
        return
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as a zip archive: {error}.") from error
    with archive:
        (name, *more) = [n for n in archive.namelist() if not n.startswith("__")] or [""]
        if not name or more:
            raise ValueError(f"{path} must hold one file, holds {len(archive.namelist())}.")
        with archive.open(name) as packed, text_lines(path, packed, newline="") as file:
            yield file


def _example(
    name: str, row: Mapping[str, Any], pathology: str, book: Book, where: str
) -> dspy.Example:
    number = book.numbers[pathology]
    return dspy.Example(
        id=name,
        profile=profile(row, book, where),
        options=book.options,
        diagnosis=f"{number}. {pathology}",
        number=number,
        pathology=pathology,
    ).with_inputs("profile", "options")
