"""SQL judged by execution: three scorings, safe workers, feedback that names the difference.

>>> extract_sql("The answer:\\n```sql\\nselect 1;\\n```")
'select 1'
"""

from __future__ import annotations

from evaluators.sql.compare import SCORINGS
from evaluators.sql.database import schema_text, table_line
from evaluators.sql.judge import ExecutionAccuracy
from evaluators.sql.text import NotOneStatement, detokenised, extract_sql, rejoined

__all__ = [
    "SCORINGS",
    "ExecutionAccuracy",
    "NotOneStatement",
    "detokenised",
    "extract_sql",
    "rejoined",
    "schema_text",
    "table_line",
]
