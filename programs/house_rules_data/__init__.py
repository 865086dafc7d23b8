"""What :mod:`programs.house_rules` is made of: the company's databases and the questions.

``databases`` builds the three SQLite files from a seed; ``pairs.jsonl`` holds the questions.
"""

from __future__ import annotations
