"""Run every benchmark and print one table; exits 1 when one is below its floor.

Each file of this folder is one claim: it runs our way and the peer's on the same input, and its last line is JSON
with ``name``, ``ours``, ``peer``, ``ratio``, ``floor`` and ``unit``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    files = [path for path in sorted(FOLDER.glob("*.py")) if not path.name.startswith("_")]
    wanted = [path for path in files if not names or path.stem in names]
    unknown = set(names) - {path.stem for path in files}
    if unknown:
        print(f"error: no such benchmark: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    table = Table(box=box.SIMPLE)
    for column in ("benchmark", "ours", "peer", "ratio", "floor", "unit"):
        table.add_column(column, justify="left" if column in ("benchmark", "unit") else "right")
    failed = False
    for path in wanted:
        print(f"== {path.stem}", flush=True)
        code, row = run(path)
        failed |= code != 0
        table.add_row(*row, style="red" if code else None)
    Console().print(table)
    return int(failed)


def run(path: Path) -> tuple[int, list[str]]:
    """Run one benchmark, passing its output on; returns its exit status and its row of the table."""
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, cwd=FOLDER.parent)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(f"   {line}", end="", flush=True)
        last = line.strip() or last
    code = process.wait()
    try:
        told = json.loads(last)
        numbers = [f"{told[name]:,.4g}" for name in ("ours", "peer", "ratio", "floor")]
        return code, [told["name"], *numbers, told["unit"]]
    except (ValueError, KeyError, TypeError):
        return code or 1, [path.stem, "failed", "", "", "", ""]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
