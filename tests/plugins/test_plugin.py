"""What Airflow's own loader sees of ``plugins/``."""

from pathlib import Path

from airflow._shared.module_loading import find_path_from_directory

from plugins.links.artifact import ArtifactLink
from plugins.links.mlflow_run import MlflowRunLink
from plugins.operators.command import TasksOperator
from plugins.operators.stage import StageOperator
from plugins.plugin import HeadracePlugin

PLUGINS = Path(__file__).parents[2] / "plugins"


def test_airflow_executes_only_the_one_file_that_is_meant_for_it():
    found = [Path(path) for path in find_path_from_directory(str(PLUGINS), ".airflowignore", "glob")]
    assert [path for path in found if path.suffix == ".py"] == [PLUGINS / "plugin.py"]


def test_the_plugin_registers_the_links_our_operators_have():
    assert {type(link) for link in HeadracePlugin.operator_extra_links} == {MlflowRunLink, ArtifactLink}
    assert {type(link) for link in TasksOperator.operator_extra_links} == {MlflowRunLink}
    assert {type(link) for link in StageOperator.operator_extra_links} == {MlflowRunLink, ArtifactLink}
