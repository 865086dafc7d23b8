"""What a predictor knows of its place in the program; kept on the predictor itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from drpg_dspy.injection.fields import (
    as_declared,
    hides_markers,
    open_field,
    with_judged_shots,
    with_policy_field,
    with_policy_instructions,
)

__all__ = ["POLICY", "SLOT", "Slot"]

# Keys in a predictor's __dict__: its slot, and the policy of its own where it has one.
SLOT = "_drpg_slot"
POLICY = "drpg_policy"

_MAX_VIEWS = 64


@dataclass(slots=True)
class Slot:
    """What a predictor knows of its place in the program.

    Attributes:
        route: Its path in the program.
        owner: Name shared by the predictors that were attached together.
        new_field: Name of the policy field where one is added.
        in_instructions: Put the policy at the end of the instructions instead.
        known_policy, known_shots: Open fields whose mark was lost; see ``open_field``.
        views: Extended signatures, kept because DSPy finds predictors by signature identity.
    """

    route: str
    owner: str = ""
    new_field: str = "policy"
    in_instructions: bool = False
    known_policy: str = ""
    known_shots: str = ""
    views: dict[tuple[Any, str, bool], View] = dataclasses.field(default_factory=dict)

    def policy_field(self, signature: Any) -> str:
        """Name of the input field for a policy; ``""`` where the user's own has that name."""
        name = open_field(signature, "policy", self.known_policy)
        return name or ("" if self.new_field in signature.model_fields else self.new_field)

    def shots_field(self, signature: Any) -> str:
        """Name of the open field for examples, or ``""``."""
        return open_field(signature, "shots", self.known_shots)

    def place(self, signature: Any, text: str) -> str:
        """Name of the input field that this policy goes into; ``""`` = the instructions."""
        name = self.policy_field(signature)
        added = name not in signature.model_fields
        return "" if hides_markers(text) or (added and self.in_instructions) else name

    def view(self, signature: Any, text: str, judged: bool = False) -> Any:
        """Return the signature as shown in a call; the same object for the same three.

        Args:
            signature: The predictor's own.
            text: The policy in force; ``""`` = none.
            judged: There are examples with verdicts.
        """
        place = self.place(signature, text) if text else ""
        extended = bool(text) and place not in signature.model_fields
        if not extended and not judged:
            return signature
        self.settle()
        # Of a policy in an input field only the field is part of the signature.
        instructed = text if extended and not place else ""
        key = (signature, instructed or (place if extended else ""), judged)
        state = _fingerprint(signature)  # user code may change a signature class in place
        view = self.views.get(key)
        if view is not None and view.state == state:
            return view.signature
        if view is not None or len(self.views) >= _MAX_VIEWS:
            self.views.clear()
        made = signature
        if extended and place:
            made = with_policy_field(made, place)
        elif extended:
            made = with_policy_instructions(made, text)
        if judged:
            made = with_judged_shots(made, self.shots_field(made))
        # Of two threads that come here together, the first one's view stands.
        return self.views.setdefault(key, View(state, made, made.__doc__, instructed)).signature

    def settle(self) -> None:
        """Pass on what other code wrote into the instructions of an extended signature in place.

        InferRules does; on a plain predictor it would have changed the signature itself.
        """
        for key, view in list(self.views.items()):
            if view.signature.__doc__ == view.doc:
                continue
            base = key[0]
            if base.__doc__ == view.state[0]:  # else a copy of this predictor has passed it on
                base.instructions = as_declared(view.signature, view.text).instructions
            self.views.pop(key, None)


@dataclass(frozen=True, slots=True)
class View:
    """An extended signature.

    Attributes:
        state: Of the signature it was made from.
        signature: What is shown.
        doc: Its instructions when it was made.
        text: The policy among them.
    """

    state: tuple[Any, ...]
    signature: Any
    doc: str
    text: str


def _fingerprint(signature: Any) -> tuple[Any, ...]:
    return (
        signature.__doc__,
        *((f.annotation, f.json_schema_extra["desc"]) for f in signature.model_fields.values()),
    )
