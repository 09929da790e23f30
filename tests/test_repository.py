"""What the tree itself promises."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.core.stage import signature_of, stage_names

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "mlflow", "pandas", "numpy", "spacy", "pyarrow", "bentoml", "onnxruntime", "datasets")
SAYS_NOTHING = {"utils", "helpers", "common", "misc", "util", "helper"}


def files(pattern: str = "*") -> list[Path]:
    """Every file of the tree that is not state."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(name) for name in names if (ROOT / name).is_file()]


def test_no_file_or_folder_has_a_name_that_says_nothing():
    assert [path for path in files() if SAYS_NOTHING & {Path(part).stem for part in path.parts}] == []


def test_mlflow_is_no_package_and_nothing_is_called_triton():
    assert not (ROOT / "mlflow" / "__init__.py").exists()
    assert not (ROOT / "triton").exists()
    code = "import mlflow; print(mlflow.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "site-packages" in found.stdout


@pytest.mark.parametrize("name", stage_names())
def test_a_stage_keeps_the_contract(name):
    assert signature_of(name).version >= 1


@pytest.mark.parametrize("path", files("tasks/*.py"), ids=str)
def test_no_stage_is_imported_by_another_or_from_below(path):
    own = path.parts[1]
    imported = {name.split(".")[1] for name in modules_imported_by(ROOT / path) if name.startswith("tasks.")}
    assert imported & set(stage_names()) <= {own}


def modules_imported_by(path: Path) -> set[str]:
    """Every module a file imports, as written; ``from tasks import x`` counts as ``tasks.x``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{one.name}" for one in node.names}
    return found


@pytest.mark.parametrize("name", stage_names())
def test_a_configuration_imports_nothing_heavy(name):
    code = f"import sys, tasks.{name}.config; print([one for one in {HEAVY} if one in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_source_of_the_sample_has_its_licence():
    folders = [path for path in (ROOT / "samples").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(folders) >= 10
    assert [path.name for path in folders if not list(path.glob("LICENSE*"))] == []


def test_every_requirement_has_a_lower_bound_and_a_reason():
    lines = [line for line in (ROOT / "requirements.in").read_text().splitlines() if line and line[0] not in "#"]
    assert [line for line in lines if ">=" not in line.split("#")[0] or not line.partition("#")[2].strip()] == []


def test_the_lock_pins_everything_and_no_cuda_package():
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and line[0] not in " #"]
    assert [line for line in lines if "==" not in line] == []
    assert [line for line in lines if line.startswith(("nvidia-cu", "nvidia-nccl", "cuda-", "triton"))] == []
