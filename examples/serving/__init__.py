"""A web service around a learner."""

from __future__ import annotations
