"""House rules: text-to-SQL at a company whose conventions only feedback reveals.

Brinewood Coffee is an invented roaster with a web shop and eight cafés. The schemas are honest
but silent: that ``amount`` holds cents, that an order with the status ``X`` was cancelled, or
that the fiscal year starts in April is known to the people who review the answers, and to
nobody else. Seven such conventions recur and combine, so a rule learned from one wrong answer
helps with many later questions, in all three databases. About one question in four needs none
of them, or asks for the opposite ("deleted ones too"): a policy that over-reaches loses there.

This is the stream of ``make demo``: everything is in the package, nothing is downloaded, and
schemas, questions and queries are short enough for a 1.5 B model on two CPU cores.

Card:
    - Stream: 240 questions over 3 SQLite databases of 16 to 530 rows a table set.
    - Input: the tables of one database and a question. Output: one SQLite query.
    - Metric: execution accuracy, ``evaluators.sql.ExecutionAccuracy``. What a reviewer at the
      company would say is added to its feedback when the answer is wrong.
    - Version: 1 (:data:`programs.house_rules_data.databases.VERSION`); a change of rows or
      pairs raises it. Licence: Apache-2.0, written for this project.
    - Paper: none. Deviations: none.
"""

from __future__ import annotations

import dspy

from drpg_dspy.types import PolicyField, ShotsField
INSTRUCTIONS = "Write one SQLite query that answers the question. Reply with the query alone."

class WriteSQL(dspy.Signature):
    db_schema: str = dspy.InputField(desc="Tables of the database.")
    policy: str = PolicyField()
    examples: str = ShotsField()
    question: str = dspy.InputField()
    sql: str = dspy.OutputField(desc="One SQLite query.")
WriteSQL.__doc__ = INSTRUCTIONS

def program(): return dspy.Predict(WriteSQL)
