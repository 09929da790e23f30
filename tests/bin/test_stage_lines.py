import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bin" / "stage-lines"
LOG = """\
2026-11-30T18:04:20.425149Z [info     ] Updating RenderedTaskInstanceFields [airflow.api] field_count=1 loc=a.py:1
2026-11-30T18:04:21.303874Z [info     ] ingest: 3 of 4 [x] [airflow.task.operators.plugins.stage.Op] loc=c.py:118
2026-11-30T18:04:22.100000Z [warning  ] something is deprecated [py.warnings] loc=b.py:2
  its second line
2026-11-30T18:04:23.100000Z [error    ] Task failed with exception [task] loc=d.py:3
Traceback (most recent call last):
2026-11-30T18:04:24.100000Z [info     ] DagRun Finished [airflow.models] loc=e.py:4
DagRun failed
Traceback (most recent call last):
ValueError: a wrong parameter
2026-11-30T18:04:25.100000Z [info     ] good bye [airflow.models] loc=e.py:5
stage: ingest
cause: a file is gone
"""


def test_the_screen_shows_stages_errors_and_last_words_only():
    shown = subprocess.run([sys.executable, SCRIPT], input=LOG, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        "ingest: 3 of 4 [x]",
        "Task failed with exception [task] loc=d.py:3",
        "Traceback (most recent call last):",
        "Traceback (most recent call last):",
        "ValueError: a wrong parameter",
        "stage: ingest",
        "cause: a file is gone",
    ]
