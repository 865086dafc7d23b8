"""Runs side by side: one page, and its tables as CSV and Markdown.

:func:`write_report` reads runs, refuses those that cannot be compared, and writes the files.
:func:`write_audit` pairs the answers to the same items from before and after.
"""

from __future__ import annotations

from drpg_dspy.report.audit import write_audit
from drpg_dspy.report.writing import ReportFiles, ReportOptions, write_report

__all__ = ["ReportFiles", "ReportOptions", "write_audit", "write_report"]
