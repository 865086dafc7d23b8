"""Attaching a program: its predictors found, named and converted in place."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import dspy
from dspy.predict.parameter import Parameter
from dspy.primitives.base_module import BaseModule

from drpg_dspy.carrier import follow_threads
from drpg_dspy.injection.fields import card, open_field
from drpg_dspy.injection.predictor import PLAIN_CLASS, Injected, injected_class
from drpg_dspy.injection.scope import text_of
from drpg_dspy.injection.slot import POLICY, SLOT, Slot
from drpg_dspy.types import OPEN_FIELD, RouteCard

__all__ = [
    "attach",
    "attach_like",
    "attached_as",
    "check_routes",
    "detach",
    "routes",
    "set_policy",
]

logger = logging.getLogger(__name__)

_PLACEMENTS = ("input", "instructions")
_NOT_PARTS = frozenset(
    "history callbacks demos traces train "
    # What DSPy's optimizers leave on a program that they compiled: the candidates they tried.
    "candidate_programs mb_candidate_programs trial_logs".split()
)


def attach(
    program: dspy.Module, *, field: str | None = None, placement: str | None = None
) -> tuple[RouteCard, ...]:
    """Let a policy and retrieved examples into a program's predictors, in place.

    An attached predictor is of a subclass of its own class and behaves as before until a policy
    or examples are in force for its route; its prompt then differs by exactly these. Where the
    signature declares a :func:`~drpg_dspy.types.PolicyField`, the policy stands there (while
    there is none, the field is shown empty, as in the plain program); elsewhere a field is put
    first while there is a policy. Attaching again is harmless, also under other arguments, and
    after another library has changed a predictor's class.

    Args:
        program: The program.
        field: Name of the field where one is put first; ``None`` = as it was attached before,
            else ``"policy"``.
        placement: ``"input"``, or ``"instructions"``: at the end of the instructions, for
            adapters with templates that show only the fields they name, and for prefix caches
            when examples change with every call. Adapters indent instructions and tabs become
            spaces there. ``None`` = as it was attached before, else ``"input"``.

    Returns:
        What optimizers may know of each predictor.

    Raises:
        ValueError: There is no predictor, or a field of the program has the policy field's name.

    >>> program = dspy.ChainOfThought("question -> answer")
    >>> [card.name for card in attach(program)]
    ['predict']
    """
    if placement is not None and placement not in _PLACEMENTS:
        raise ValueError(f"placement must be one of {_PLACEMENTS}, got {placement!r}.")
    if field is not None and not (isinstance(field, str) and field.isidentifier()):
        raise ValueError(f"field must be a Python name, got {field!r}.")
    found = routes(program)
    if not found:
        raise ValueError(
            f"{type(program).__name__} holds no predictor that a policy could be given to. Make "
            "its dspy.Predict, dspy.ChainOfThought and the like in __init__ and keep them as "
            "attributes; predictors made inside forward cannot be reached."
        )
    owner = _owner(found)
    marks = _marked_fields(program)
    slots = {name: _slot(name, predictor, marks) for name, predictor in found.items()}
    for slot, (name, predictor) in zip(slots.values(), found.items(), strict=True):
        slot.owner = owner
        _arrange(slot, predictor.__dict__.get(SLOT), field, placement)
        _check_fields(slot, name, predictor.__dict__["signature"])
    _warn_of_frozen(program, found)
    for name, predictor in found.items():
        _warn_of_other_owner(predictor, slots[name])
        if not isinstance(predictor, Injected):
            # A program saved by value brings another copy of our class along.
            plain = getattr(type(predictor), PLAIN_CLASS, type(predictor))
            predictor.__class__ = injected_class(plain)
        predictor.__dict__[SLOT] = slots[name]
    follow_threads()
    return tuple(_card(name, predictor) for name, predictor in found.items())


def attach_like(program: dspy.Module, other: dspy.Module) -> None:
    """Attach a program under the field and placement of another one, unless it is attached.

    Args:
        program: The program.
        other: One that is attached.
    """
    if any(SLOT in predictor.__dict__ for predictor in routes(program).values()):
        return
    slot: Slot = next(iter(routes(other).values())).__dict__[SLOT]
    attach(program, field=slot.new_field, placement=_PLACEMENTS[slot.in_instructions])


def detach(program: dspy.Module) -> None:
    """Give the program back as it was before :func:`attach`; its own policy is dropped."""
    for predictor in routes(program).values():
        kind = type(predictor)
        if plain := getattr(kind, PLAIN_CLASS, None):
            if PLAIN_CLASS not in kind.__dict__:
                logger.warning(
                    "%s was laid over an attached %s by other code; detaching restores %s itself.",
                    kind.__qualname__,
                    plain.__qualname__,
                    plain.__qualname__,
                )
            predictor.__class__ = plain
        if slot := predictor.__dict__.pop(SLOT, None):
            slot.settle()
        predictor.__dict__.pop(POLICY, None)


def routes(program: dspy.Module) -> dict[str, dspy.Predict]:
    """Return a program's predictors by name, each once.

    Names and order are those of ``named_predictors``. Predictors that it does not list follow:
    those in sub-modules that an optimizer marked as compiled, in lists inside of lists, and in
    modules that an agent has as tools (``agent.tools['lookup'].predict``).

    Raises:
        ValueError: ``program`` is not a ``dspy.Module``.
    """
    if not isinstance(program, dspy.Module):
        raise ValueError(f"Expected a dspy.Module, got {type(program).__name__}: {program!r}.")
    found: dict[str, dspy.Predict] = dict(_listed(program))
    seen = {id(predictor) for predictor in found.values()}
    for name, part in _parts(program):
        if _is_predictor(part) and id(part) not in seen:
            found[name] = part
    return found


def set_policy(program: dspy.Module, policies: Mapping[str, str]) -> None:
    """Give predictors a policy of their own, in force wherever no scope says otherwise.

    It is copied and saved with the program. A program that is not attached yet is attached.

    Args:
        program: The program.
        policies: Texts by route; an empty one takes the policy away, other routes keep theirs.

    Raises:
        ValueError: The program has no such route, or a policy is not a text.
    """
    found = routes(program)
    check_routes(policies, found)
    if not all(SLOT in predictor.__dict__ for predictor in found.values()):
        attach(program)
    for route, text in policies.items():
        predictor = found[route]
        predictor.__dict__.pop(POLICY, None)
        if policy := text_of(route, text):
            predictor.__dict__[POLICY] = policy


def check_routes(given: Mapping[str, Any], found: Collection[str]) -> None:
    """Refuse names that are no routes.

    Raises:
        ValueError: There are some.
    """
    if unknown := [route for route in given if route not in found]:
        raise ValueError(f"No such route: {unknown}. The program's routes are {sorted(found)}.")


def attached_as(program: dspy.Module) -> tuple[str, set[str]]:
    """Return the name shared by the predictors of an attached program, and their routes.

    Raises:
        ValueError: The program is not attached.
    """
    slots = [part.__dict__.get(SLOT) for _, part in _parts(program) if _is_predictor(part)]
    owners = {slot.owner if slot is not None else "" for slot in slots}
    if len(owners) != 1 or "" in owners:
        raise ValueError(f"{type(program).__name__} is not attached; call attach(program) first.")
    return str(owners.pop()), {slot.route for slot in slots}


def _parts(program: dspy.Module) -> Iterator[tuple[str, Any]]:
    """Yield every module inside a program by path, each once.

    Unlike ``named_sub_modules`` it does not search histories and demos, which in a program that
    has run for a while hold thousands of entries, nor the candidates that an optimizer tried.
    """
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("self", program)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dspy.Tool):
            value = getattr(value.func, "__self__", value.func)  # a module, or a method of one
        if id(value) in seen or not isinstance(value, (BaseModule, list, tuple, dict)):
            continue
        seen.add(id(value))
        inside: list[tuple[str, Any]] = []
        if isinstance(value, BaseModule):
            yield name, value
            prefix = "" if value is program else f"{name}."
            attributes = value.__dict__.items()
            inside = [(prefix + key, item) for key, item in attributes if key not in _NOT_PARTS]
        elif isinstance(value, dict):
            inside = [(f"{name}[{key!r}]", item) for key, item in value.items()]
        else:
            inside = [(f"{name}[{i}]", item) for i, item in enumerate(value)]
        stack.extend(reversed(inside))


def _listed(module: BaseModule) -> Iterator[tuple[str, dspy.Predict]]:
    """Yield what ``named_predictors()`` lists, without looking through histories.

    DSPy looks through a module's history as it does through its lists of modules: with every
    call that a program has made it takes longer.
    """
    kind = type(module)
    own = getattr(kind, "named_predictors", None) not in (None, dspy.Module.named_predictors)
    if own or kind.named_parameters is not BaseModule.named_parameters:
        named = module.named_predictors() if own else module.named_parameters()
        yield from ((name, part) for name, part in named if _is_predictor(part))
        return
    seen: set[int] = set()
    inside: list[tuple[str, Any]] = [("self", module)] if isinstance(module, Parameter) else []
    for key, value in module.__dict__.items():
        if key == "history":
            continue
        if isinstance(value, (list, tuple)):
            inside += [(f"{key}[{i}]", item) for i, item in enumerate(value)]
        elif isinstance(value, dict):
            inside += [(f"{key}['{name}']", item) for name, item in value.items()]
        else:
            inside.append((key, value))
    for name, part in inside:
        found: Iterable[tuple[str, Any]] = ()
        if isinstance(part, Parameter):
            found = [(name, part)]
        elif isinstance(part, dspy.Module) and not getattr(part, "_compiled", False):
            found = ((f"{name}.{rest}", each) for rest, each in _listed(part))
        for path, predictor in found:
            if _is_predictor(predictor) and id(predictor) not in seen:
                seen.add(id(predictor))
                yield path, predictor


def _is_predictor(part: Any) -> bool:
    return isinstance(part, dspy.Predict)


def _owner(found: Mapping[str, dspy.Predict]) -> str:
    slots = [predictor.__dict__.get(SLOT) for predictor in found.values()]
    if all(
        slot is not None and slot.route == name for name, slot in zip(found, slots, strict=True)
    ):
        owners = {slot.owner for slot in slots}
        if len(owners) == 1:
            return str(owners.pop())
    return uuid.uuid4().hex


def _marked_fields(program: dspy.Module) -> dict[tuple[str, str], str]:
    """Open fields of any signature in the program: (name, description) to kind."""
    marks: dict[tuple[str, str], str] = {}
    for _, module in _parts(program):
        signature = module.__dict__.get("signature")
        for name, info in getattr(signature, "input_fields", {}).items():
            if kind := (info.json_schema_extra or {}).get(OPEN_FIELD):
                marks[name, info.json_schema_extra["desc"]] = kind
    return marks


def _slot(name: str, predictor: dspy.Predict, marks: Mapping[tuple[str, str], str]) -> Slot:
    slot = Slot(route=name)
    for field, info in predictor.__dict__["signature"].input_fields.items():
        kind = marks.get((field, info.json_schema_extra["desc"]))
        if kind == "policy":
            slot.known_policy = field
        elif kind == "shots":
            slot.known_shots = field
    return slot


def _arrange(slot: Slot, before: Slot | None, field: str | None, placement: str | None) -> None:
    """Decide where a policy goes that has no field declared; as before where nothing is said."""
    if before is not None:
        slot.new_field, slot.in_instructions = before.new_field, before.in_instructions
    if field is not None:
        slot.new_field = field
    if placement is not None:
        slot.in_instructions = placement == "instructions"


def _check_fields(slot: Slot, name: str, signature: Any) -> None:
    open_policy = open_field(signature, "policy", slot.known_policy)
    field = slot.new_field
    if not open_policy and field in signature.fields:
        raise ValueError(
            f"Route {name!r} has a field {field!r} of its own. Either declare it as the "
            f"policy's place with {field}: str = drpg_dspy.types.PolicyField(), or attach "
            'under another name, before a learner wraps it: attach(program, field="learned_policy")'
            "."
        )


def _warn_of_frozen(program: dspy.Module, found: Mapping[str, dspy.Predict]) -> None:
    listed = {name for name, _ in _listed(program)}
    for name in found:
        if name not in listed:
            logger.warning(
                "Route %r is hidden from DSPy: it lies in a sub-module marked as compiled, in a "
                "nested list, or in an agent's tool. It gets its policy, but optimizers and "
                "program.save() pass it over.",
                name,
            )


def _warn_of_other_owner(predictor: dspy.Predict, slot: Slot) -> None:
    before = predictor.__dict__.get(SLOT)
    if before is not None and before.owner != slot.owner:
        logger.warning(
            "The predictor attached as route %r of another program is now route %r of this one.",
            before.route,
            slot.route,
        )


def _card(name: str, predictor: dspy.Predict) -> RouteCard:
    slot, signature = predictor.__dict__[SLOT], predictor.__dict__["signature"]
    ours = (
        open_field(signature, "policy", slot.known_policy),
        open_field(signature, "shots", slot.known_shots),
    )
    return card(name, signature, ours)
