"""Adding a stage takes one folder and one line, as CONTRIBUTING.md says; here it is done, and run for real."""

CONFIG = '''
from dataclasses import dataclass

from tasks.core.config import Config, dial


@dataclass(frozen=True, kw_only=True)
class CountConfig(Config):
    """Count the notes."""

    note: str = dial("hum")
    """Which note to count."""
'''

STAGE = """
from dataclasses import dataclass

from upath import UPath

from tasks.count.config import CountConfig

VERSION = 1


@dataclass(frozen=True)
class CountResult:
    num_notes: int


def run(config: CountConfig, tune: UPath, *, out: UPath) -> CountResult:
    num_notes = (tune / "tune.txt").read_text().count(config.note)
    (out / "notes.txt").write_text(str(num_notes))
    return CountResult(num_notes)
"""

LINE = '        step(stage="count", inputs={"tune": echo.output})\n'


def test_a_new_stage_is_one_folder_and_one_line(prepared, tmp_path):
    checkout = prepared.copy(tmp_path / "with-count")
    folder = checkout.root / "tasks/count"
    folder.mkdir()
    for name, text in {"__init__": "", "config": CONFIG, "stage": STAGE}.items():
        (folder / f"{name}.py").write_text(text)
    dag = checkout.root / "dags/song.py"
    dag.write_text(dag.read_text().replace("\n\n\nsong()", f"\n{LINE}\n\nsong()"))

    run = checkout.dags_test("song", **{"hum.times": 4, "count.note": "um"})

    assert run.returncode == 0, run.stdout
    outcome = checkout.xcoms("return_value")["count"]
    assert outcome["result"] == {"num_notes": 4}
    assert outcome["cached"] is False
    assert checkout.xcoms("mlflow_link")["count"].endswith(outcome["mlflow_run_id"])
