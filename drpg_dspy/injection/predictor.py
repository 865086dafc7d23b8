"""The class that an attached predictor has: the user's, with a policy and examples let in.

The base signature stays untouched in the instance. ``signature`` shows the extended one while a
policy is in force, and the values go in where DSPy reads the arguments of a call, below any
``forward`` of the user's own. Everything that belongs to one predictor (its route, its policy)
is kept on the instance, so that copies have it too.

A program saved by value takes this module along, so nothing here may refer to a context
variable, a lock or an ``lru_cache``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import dspy
from dspy.signatures.signature import ensure_signature

from drpg_dspy.carrier import carried
from drpg_dspy.injection.fields import (
    are_judged,
    as_declared,
    completed,
    masked,
    shots_text,
)
from drpg_dspy.injection.notices import foreign_adapter, shown_in_prompt, warn_once
from drpg_dspy.injection.scope import is_governed, plainly, scope_for, text_of
from drpg_dspy.injection.slot import POLICY, SLOT, Slot
from drpg_dspy.injection.tracing import TRACE, Recorder

__all__ = ["PLAIN_CLASS", "Injected", "injected_class"]

# Attribute of an attached predictor's class that holds the user's own.
PLAIN_CLASS = "_drpg_plain_class"


class Injected(dspy.Predict):
    """Base of every attached predictor's class; see :func:`injected_class`."""

    _drpg_plain_class: ClassVar[type[dspy.Predict]] = dspy.Predict

    @property
    def signature(self) -> Any:
        """The signature that a call would use now."""
        base = self.__dict__.get("signature")
        slot = self.__dict__.get(SLOT)
        if slot is None or base is None:
            return base
        slot.settle()
        text, shots = scope_for(slot.route, slot.owner, self.__dict__.get(POLICY, ""))
        return slot.view(base, text, are_judged(shots))

    @signature.setter
    def signature(self, signature: Any) -> None:
        slot = self.__dict__.get(SLOT)
        if slot is not None and isinstance(signature, type):
            # Optimizers write back what they derived from the extended signature.
            text, _ = scope_for(slot.route, slot.owner, self.__dict__.get(POLICY, ""))
            signature = as_declared(signature, text)
        self.__dict__["signature"] = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _Watched(self, kwargs) as watched:
            return watched.answer(super().__call__(*args, **watched.announced("forward")))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        with _Watched(self, kwargs) as watched:
            return watched.answer(await super().acall(*args, **watched.announced("aforward")))

    def forward(self, **kwargs: Any) -> Any:
        if _called(self):
            return super().forward(**kwargs)
        with _Watched(self, kwargs) as watched:
            return watched.answer(super().forward(**kwargs))

    async def aforward(self, **kwargs: Any) -> Any:
        if _called(self):
            return await super().aforward(**kwargs)
        with _Watched(self, kwargs) as watched:
            return watched.answer(await super().aforward(**kwargs))

    def _forward_preprocess(self, **kwargs: Any) -> Any:
        slot = self.__dict__.get(SLOT)
        if slot is not None:
            kwargs = _Plan(self, slot, kwargs).arguments()
        return super()._forward_preprocess(**kwargs)

    def _forward_postprocess(self, completions: Any, signature: Any, **kwargs: Any) -> Any:
        # Small models close an answer on its own line; DSPy then leaves the marker in the value,
        # where it would be judged, remembered and imitated.
        clean = [
            {name: _without_marker(value) for name, value in completion.items()}
            for completion in completions
        ]
        return super()._forward_postprocess(clean, signature, **kwargs)

    def dump_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with plainly():
            state: dict[str, Any] = super().dump_state(*args, **kwargs)
        if policy := self.__dict__.get(POLICY):
            state[POLICY] = policy
        return state

    def load_state(self, state: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        plain = {key: value for key, value in state.items() if key != POLICY}
        with plainly():
            super().load_state(plain, *args, **kwargs)
        self.__dict__.pop(POLICY, None)
        if policy := state.get(POLICY):
            self.__dict__[POLICY] = policy
        return self


_COMPLETED = "[[ ## completed ## ]]"


def _without_marker(value: Any) -> Any:
    if isinstance(value, str) and value.rstrip().endswith(_COMPLETED):
        return value.rstrip().removesuffix(_COMPLETED).rstrip()
    return value


_CLASSES: dict[type[dspy.Predict], type[Injected]] = {}


def injected_class(plain: type[dspy.Predict]) -> type[Injected]:
    """Return the class of attached predictors whose own class is ``plain``.

    It carries the name and module of the user's class, so that code which prints, quotes or
    traces classes (MIPROv2 quotes their source in its prompts) sees the user's program.
    """
    made = _CLASSES.get(plain)
    if made is None:
        # After the user's class in the order of methods: its forward may take named arguments.
        bases = (Injected,) if plain is dspy.Predict else (plain, Injected)
        namespace = {
            key: plain.__dict__[key]
            for key in ("__module__", "__qualname__", "__doc__", "__firstlineno__")
            if key in plain.__dict__
        }
        metaclass: Any = type(plain)
        made = metaclass(plain.__name__, bases, {**namespace, PLAIN_CLASS: plain})
    return _CLASSES.setdefault(plain, made)


class _Plan:
    """What one call of an attached predictor is given."""

    def __init__(self, predictor: Injected, slot: Slot, kwargs: Mapping[str, Any]) -> None:
        given = kwargs.get("signature")
        self.predictor = predictor
        self.slot = slot
        self.kwargs = kwargs
        slot.settle()
        self.base = ensure_signature(predictor.__dict__["signature"] if given is None else given)
        self.field = slot.policy_field(self.base)
        self.text, self.shots = scope_for(
            slot.route, slot.owner, predictor.__dict__.get(POLICY, "")
        )
        self.judged = are_judged(self.shots)
        self._prefer_own_value()
        self.place = slot.place(self.base, self.text) if self.text else ""

    def _prefer_own_value(self) -> None:
        own = self.kwargs.get(self.field) if self.field else None
        if own is None or (isinstance(own, str) and (not own.strip() or own == self.text)):
            return
        if self.field not in self.base.model_fields:
            # No field of the program's: a policy for this call, or none of our business.
            if is_governed(self.slot.owner):
                self._say_not_used()
            elif isinstance(own, str):
                self.text = text_of(self.slot.route, own)
            return
        if self.text:
            warn_once(
                f"own/{self.slot.owner}/{self.slot.route}",
                "The program passes a value of its own for the field %r of route %r; it is kept, "
                "and the learned policy is not shown.",
                self.field,
                self.slot.route,
            )
        self.text = ""

    def _say_not_used(self) -> None:
        # The record says what the learner gave; another text in its place would be blamed on it.
        warn_once(
            f"not-used/{self.slot.owner}/{self.slot.route}",
            "A call passes %r to route %r, whose signature has no such input: as in the plain "
            "program it is not used, and the learned policy stands. To try a policy of your own, "
            "call the program itself inside use_policy({%r: …}); for an input of that name, "
            "declare it in the signature and attach the program first under another one, e.g. "
            'attach(program, field="learned_policy").',
            self.field,
            self.slot.route,
            self.slot.route,
        )

    def arguments(self) -> dict[str, Any]:
        """Return the call's arguments with the policy and the examples among them."""
        if not self.text and not self.shots:
            return dict(self.kwargs)
        arguments = dict(self.kwargs)
        if self.field not in self.base.model_fields:
            arguments.pop(self.field, None)
        demos: list[Any] = list(arguments.get("demos", self.predictor.demos) or ())
        signature = self.slot.view(self.base, self.text, self.judged)
        if self.shots:
            demos = self._with_shots(arguments, demos, signature)
        if self.place:
            arguments[self.place] = self.text
            demos = masked(demos, self.place)
        return {**arguments, "signature": signature, "demos": demos}

    def _with_shots(self, arguments: dict[str, Any], demos: list[Any], signature: Any) -> list[Any]:
        # Examples with verdicts have a field of their own in a signature that declares none.
        name, route = self.slot.shots_field(signature), self.slot.route
        if not name:
            return [*demos, *completed(self.shots, signature, route)]
        if arguments.get(name):
            warn_once(
                f"own-shots/{self.slot.owner}/{route}",
                "The program passes a value of its own for the field %r of route %r; it is kept, "
                "and the retrieved examples are not shown.",
                name,
                route,
            )
            return demos
        arguments[name] = shots_text(self.shots, signature, route)
        return masked(demos, name)


def _called(predictor: Injected) -> bool:
    """True inside ``predictor(...)``, false when its forward is called directly."""
    callers = dspy.settings.caller_modules
    return bool(callers) and callers[-1] is predictor


class _Watched:
    """One call of a predictor: recorded, and checked for a policy or cases that nobody sees."""

    def __init__(self, predictor: Injected, kwargs: dict[str, Any]) -> None:
        self.predictor = predictor
        self.kwargs = kwargs
        slot: Slot | None = predictor.__dict__.get(SLOT)
        self.plan = _Plan(predictor, slot, kwargs) if slot is not None else None
        self.recorder: Recorder | None = None
        self.checks: list[Any] = []
        self.inputs: dict[str, Any] = {}
        if self.plan is not None:
            self._prepare(self.plan)

    def _prepare(self, plan: _Plan) -> None:
        if (plan.text or plan.judged) and foreign_adapter():
            route = plan.slot.route
            if plan.text:
                self.checks.append(shown_in_prompt(plan.text, route, not plan.place))
            if plan.judged:
                cases = shots_text(plan.shots, plan.base, route)
                self.checks.append(shown_in_prompt(cases, route, False, "list of earlier cases"))
        self.recorder = carried(TRACE)
        if self.recorder is not None:
            ours = (plan.field, plan.slot.shots_field(plan.base))
            self.inputs = self.recorder.given(self.kwargs, ours)

    def announced(self, method: str) -> dict[str, Any]:
        """Return the call's arguments with the policy, for callbacks and tracers to see."""
        plan = self.plan
        if plan is None or not plan.place:
            return self.kwargs
        if getattr(type(self.predictor), method) is not getattr(Injected, method):
            return self.kwargs  # a forward of the user's own may take named arguments only
        return {**self.kwargs, plan.place: plan.text}

    def __enter__(self) -> _Watched:
        self.running = ExitStack()
        for check in self.checks:
            self.running.enter_context(check)
        return self

    def answer(self, result: Any) -> Any:
        """Record what the predictor returned, and return it."""
        if self.recorder is not None and self.plan is not None:
            self.recorder.answered(self.plan.slot.route, self.inputs, result)
        return result

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None and self.recorder is not None and self.plan is not None:
            self.recorder.failed(self.plan.slot.route, self.inputs, error)
        self.running.__exit__(kind, error, traceback)
