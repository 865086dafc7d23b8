"""Constraints in force: kept, rendered, compared with one another, and checked on answers.

Used by :class:`~drpg_dspy.optimizers.constraints.ConstraintAdapter`.
"""

from __future__ import annotations
