"""How far a judging model agrees with people, before its verdicts are believed.

:data:`CASES` are answers that we judged ourselves, two for each judged type: one that meets the
constraint plainly, one that fails it plainly. They are easy on purpose: a judge that gets these
wrong cannot be used at all; one that gets them right may still err on hard ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drpg_dspy.constraints import ConstraintCheck

__all__ = ["CASES", "LEAST_AGREEMENT", "Agreement", "Case", "agreement"]

LEAST_AGREEMENT = 0.85
"""Share of cases on which a judge must agree with us for its figures to be reported as such."""


@dataclass(frozen=True, slots=True)
class Case:
    """An answer that a person has judged.

    Attributes:
        type, text: The constraint.
        task: What was asked.
        answer: What was answered.
        met: The person's verdict.
    """

    type: str
    text: str
    task: str
    answer: str
    met: bool


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a judge fared on judged cases.

    Attributes:
        n: Cases.
        agreed: Verdicts that are ours.
        not_judged: Cases without a verdict; they count as disagreement.
        kappa: Cohen's kappa over the judged cases: agreement beyond chance; NaN where chance
            alone would agree on all.
        wrong: The types of cases judged otherwise or not at all.
    """

    n: int
    agreed: int
    not_judged: int
    kappa: float
    wrong: tuple[str, ...]

    @property
    def share(self) -> float:
        """Agreed cases among all."""
        return self.agreed / self.n

    @property
    def enough(self) -> bool:
        """True from :data:`LEAST_AGREEMENT` on."""
        return self.share >= LEAST_AGREEMENT


def agreement(judge: ConstraintCheck, cases: Iterable[Case] = ()) -> Agreement:
    """Let a judge meet the judged cases.

    Args:
        judge: The judge.
        cases: Cases of one's own; by default :data:`CASES`.

    Raises:
        ValueError: A case's type is not known.

    >>> from drpg_dspy.constraints import RuleCheck
    >>> agreement(RuleCheck(), [Case("No_Commas", "No commas.", "", "One, two.", met=False)]).share
    1.0
    """
    known = tuple(cases) or CASES
    agreed = silent = 0
    wrong: list[str] = []
    table = {(ours, theirs): 0 for ours in (True, False) for theirs in (True, False)}
    for case in known:
        check = judge.check(case.type, case.text, case.answer, case.task)
        agreed += check.satisfied is case.met
        silent += check.satisfied is None
        if check.satisfied is not case.met:
            wrong.append(case.type)
        if check.satisfied is not None:
            table[case.met, check.satisfied] += 1
    return Agreement(len(known), agreed, silent, _kappa(table), tuple(wrong))


def _kappa(table: dict[tuple[bool, bool], int]) -> float:
    n = sum(table.values())
    if not n:
        return float("nan")
    seen = (table[True, True] + table[False, False]) / n
    ours = (table[True, True] + table[True, False]) / n
    theirs = (table[True, True] + table[False, True]) / n
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    return float("nan") if chance == 1 else (seen - chance) / (1 - chance)


_TASK = "Tell a customer that their parcel will be late."
_LATE = "Your parcel is running two days late and will reach you on Friday."

CASES: tuple[Case, ...] = tuple(
    Case(kind, text, task, answer, met)
    for kind, text, task, good, bad in (
        ("Tone", "Use a formal tone.", _TASK,
         "Dear customer, we regret to inform you that your parcel will arrive on Friday.",
         "Hey buddy, so, yeah, your stuff's gonna be late, my bad lol!"),
        ("Topic", "Write about gardening.", "Write two sentences.",
         "Tomatoes need sun and even watering. Mulch keeps their roots cool.",
         "The striker scored twice. The match ended three to one."),
        ("Style", "Write it as a fairy tale.", "Explain why leaves fall.",
         "Once upon a time an old oak told its leaves that winter the king was near, and so, one "
         "by one, they flew away to sleep.",
         "Abscission is the shedding of leaves. It is caused by a fall in auxin."),
        ("Emotion", "Let the answer convey joy.", "Report that the bridge is open.",
         "What a wonderful day, the bridge is open at last! We are overjoyed and cheering!",
         "The bridge was opened at 9:00. Traffic is normal."),
        ("Helpfulness", "Give steps that the reader can take today.", "My tap drips.",
         "Turn off the water under the sink, unscrew the handle, and replace the washer.",
         "Dripping taps are a common matter in many homes around the world."),
        ("Example", "Give one example from everyday life.", "What is friction?",
         "Friction resists motion. For example, your shoes grip the pavement when you walk.",
         "Friction is a force that resists the relative motion of two surfaces."),
        ("Audience", "Write for children of seven.", "What is the Moon?",
         "The Moon is a big ball of rock. It goes around our Earth, and at night you can see it!",
         "Earth's natural satellite exhibits synchronous rotation and a differentiated interior."),
        ("Role", "Speak as a ship's captain.", "Welcome the guests.",
         "Welcome aboard! This is your captain: from my bridge I wish you a calm passage.",
         "As a language model I welcome the guests of this hotel."),
        ("Language", "Answer in French.", _TASK,
         "Votre colis arrivera vendredi, avec deux jours de retard.", _LATE),
        ("Structure", "First the answer, then one reason.", "Is tea better cold?",
         "Yes. The reason: cold brewing draws less bitterness from the leaves.",
         "Tea comes from a plant that grows in Asia, Africa and elsewhere."),
        ("Factuality", "Say where you are not sure.", "Who invented the wheel?",
         "It is not known who did; it probably appeared about 3500 BC, though dates are disputed.",
         "John Wheeler invented it on 3 May 3501 BC, which is beyond all doubt."),
        ("Safety", "Warn of the danger.", "How do I clean an oven with lye?",
         "Caution: lye burns skin and eyes. Wear gloves and goggles, and air the room.",
         "Spread the lye with your hands, wait an hour, wipe it off."),
        ("Background", "Take into account that the reader lives in a flat without a garden.",
         "How can I grow herbs?",
         "In your flat a sunny window sill is enough: put basil and mint in pots there.",
         "Dig a bed of two metres in your garden and put up a fence against deer."),
    )
    for answer, met in ((good, True), (bad, False))
)  # fmt: skip
"""Our own judgements: 13 types, one plain yes and one plain no each."""
