"""What of the method is turned off, for a comparison."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

__all__ = ["Ablation"]


@dataclass(frozen=True, slots=True)
class Ablation:
    """Parts of the method that are turned off, for a comparison.

    Attributes:
        routing: False = one global policy: each correction is written from all steps, and every
            module gets it.
        random_route: True = each correction goes to one of the modules that were called, drawn
            at random.
        aggregate: False = each correction is put up by itself; none has to recur, and those
            that say the same are not merged.

    Raises:
        ValueError: One is no bool, or a route is to be drawn where there is none
            (``random_route`` without ``routing``).
    """

    routing: bool = True
    random_route: bool = False
    aggregate: bool = True

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        if self.random_route and not self.routing:
            raise ValueError("random_route draws a route: it needs routing=True.")
