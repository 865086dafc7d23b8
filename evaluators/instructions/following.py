"""Which instructions a response follows, in strict and in loose form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluators.instructions.registry import READINGS, Instruction, find

__all__ = ["InstructionVerdicts", "check_instructions", "variants", "verdicts"]


@dataclass(frozen=True, slots=True)
class InstructionVerdicts:
    """Whether a response follows each of its instructions.

    Attributes:
        strict: For the response as it stands, one verdict an instruction, in their order.
        loose: For at least one of its :func:`variants`; true wherever ``strict`` is.
        problems: What the strict form found amiss, ``"asked for …, found …"``; empty for an
            instruction that is followed.
    """

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def strict_all(self) -> bool:
        """Every instruction is followed in strict form."""
        return all(self.strict)

    @property
    def loose_all(self) -> bool:
        """Every instruction is followed in loose form."""
        return all(self.loose)


def verdicts(
    instruction_ids: Sequence[str],
    kwargs: Sequence[Mapping[str, Any] | None],
    prompt: str,
    response: str,
    *,
    reading: str = "2025",
) -> InstructionVerdicts:
    """Judge one response.

    Args:
        instruction_ids: Of IFBench, IFEval, or both.
        kwargs: The arguments of each, in the same order; ``None`` for one is the same as to
            leave it out.
        prompt: What was asked. An instruction about the request that has no text of it among
            its arguments means the whole prompt.
        response: What was answered. One that is empty or blank follows nothing.
        reading: One of ``"2025"``, ``"2026"`` and ``"described"``; see
            :mod:`evaluators.instructions`.

    Raises:
        ValueError: An unknown reading, an unknown id, or arguments that do not fit one; the
            message names the place, the id and the argument.
        EvaluationFailed: An instruction needs a package that is not installed; the message
            names it.

    >>> verdicts(["punctuation:no_comma"], [{}], "Say hello.", "Well, hello.")
    InstructionVerdicts(strict=(False,), loose=(False,), problems=('asked for no comma, found 1',))
    >>> answer = "Sure, here it is:\\nHello."
    >>> verdicts(["punctuation:no_comma"], [{}], "Say hello.", answer).loose
    (True,)
    """
    if not isinstance(response, str):
        raise ValueError(f"A response must be a text, got {type(response).__name__}.")
    if reading not in READINGS:
        raise ValueError(f"reading must be one of {', '.join(READINGS)}; got {reading!r}.")
    checks = check_instructions(instruction_ids, kwargs, prompt)
    judged = [
        _judged(known, {**arguments, **known.told(reading)}, response)
        for known, arguments in checks
    ]
    strict, loose, problems = zip(*judged, strict=True) if judged else ((), (), ())
    return InstructionVerdicts(strict, loose, problems)


def check_instructions(
    instruction_ids: Sequence[str], kwargs: Sequence[Mapping[str, Any] | None], prompt: str
) -> list[tuple[Instruction, dict[str, Any]]]:
    """Return the instructions with their arguments in the form that checks take.

    Raises:
        ValueError: As :func:`verdicts` says.
    """
    for name, value in (("instruction_ids", instruction_ids), ("kwargs", kwargs)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(f"{name} must be a list, got {value!r}.")
    if len(instruction_ids) != len(kwargs):
        raise ValueError(
            f"There must be one set of arguments for each instruction, got {len(kwargs)} for "
            f"{len(instruction_ids)}."
        )
    found = []
    for place, (id, given) in enumerate(zip(instruction_ids, kwargs, strict=True), 1):
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"Instruction {place}: {id}: expected arguments, got {given!r}.")
        try:
            known = find(id)
            found.append((known, known.arguments(given or {}, prompt)))
        except ValueError as error:
            raise ValueError(f"Instruction {place}: {error}") from error
    return found


def variants(response: str) -> Iterator[str]:
    """Yield the texts of which one must pass in loose form, each once; blank ones never.

    They are the response, the response without its first line, without its last, and without
    both (those three trimmed), and each of the four without asterisks: what models put around
    an answer, and how they mark it up.

    >>> list(variants("Sure:\\n**Yes.**"))
    ['Sure:\\n**Yes.**', 'Sure:\\nYes.', '**Yes.**', 'Yes.', 'Sure:']
    """
    lines = response.split("\n")
    cuts = (lines[1:], lines[:-1], lines[1:-1])
    texts = [response, *("\n".join(cut).strip() for cut in cuts)]
    both = [form for text in texts for form in (text, text.replace("*", ""))]
    yield from (text for text in dict.fromkeys(both) if text.strip())


def _judged(
    known: Instruction, arguments: Mapping[str, Any], response: str
) -> tuple[bool, bool, str]:
    if not response.strip():
        return False, False, f"asked for {known.wording(arguments)}, found an empty response"
    as_it_is = known.check(response, **arguments)
    if as_it_is.followed:
        return True, True, ""
    others = (text for text in variants(response) if text != response)
    loose = any(known.check(text, **arguments).followed for text in others)
    return False, loose, f"asked for {known.wording(arguments)}, found {as_it_is.found}"
