"""Base of our operators: one ``python -m tasks`` command with its request on standard input."""

from __future__ import annotations

import json
import shlex
import signal
import tempfile
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from plugins.hooks import credentials
from plugins.links.mlflow_run import MlflowRunLink
from plugins.operators import last_words
from plugins.operators.backends import ROOT, Job, backend_for
from tasks.core.errors import FIVE_LINES, ConfigError, HeadraceError, ServiceError, TryAgain, five_lines
from tasks.core.pipeline import near, resolve

if TYPE_CHECKING:
    from airflow.sdk import Context

RETRY_CODES = (ServiceError.exit_code, TryAgain.exit_code)
RETRIES = 2
RETRY_DELAY = timedelta(seconds=30)
CONTINUES = "run the same command; it continues with what is finished"


class TasksOperator(BaseOperator):
    """Runs one verb of ``python -m tasks``, relays what it says and takes its outcome.

    ``pipeline`` is the DAG file, ``__file__``: the knobs are in the YAML of the same stem beside it.
    """

    operator_extra_links: tuple[BaseOperatorLink, ...] = (MlflowRunLink(),)

    def __init__(
        self, *, pipeline: str, retries: int = RETRIES, retry_delay: timedelta = RETRY_DELAY, **kwargs: Any
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.pipeline = Path(pipeline).resolve()
        self.mlflow_url = ""
        self._job: Job | None = None
        self._killed = False
        self._credentials = credentials.Credentials()

    @property
    def pipeline_name(self) -> str:
        return self.pipeline.stem

    def configs(self, context: Context) -> dict[str, dict[str, Any]]:
        """All knobs of all stages: the YAML's, with the trigger form's in their place.

        Raises:
            AirflowFailException: naming everything that is wrong with them.
        """
        try:
            return resolve(self.pipeline, chosen_knobs(context))
        except ConfigError as error:
            raise self.refused(error, context) from None

    def refused(self, error: HeadraceError, context: Context) -> AirflowFailException:
        """The failure of a task for a reason on this side of its command."""
        conf = json.dumps(context["dag_run"].conf or {}, ensure_ascii=False)
        words = five_lines(
            stage=self.task_id,
            cause=str(error),
            given=error.subject or self.pipeline.with_suffix(".yaml").name,
            next_step=error.next_step,
            reproduce=f"bin/run-dag {self.dag_id} {shlex.quote(conf)}",
        )
        return self.failure(words)

    def failure(self, words: list[str]) -> AirflowFailException:
        """A failure that no retry will mend; its five lines are said last."""
        last_words.keep(self.task_id, words)
        return AirflowFailException(f"{self.task_id} failed, {words[1]}")

    def run_command(self, arguments: list[str], spec: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Run ``python -m tasks <arguments> --spec -`` where it is configured to run; give its outcome.

        Raises:
            AirflowFailException: the command refused; no retry will mend it.
            AirflowException: something was missing or the command was stopped; worth a retry.
        """
        last_words.forget(self.task_id)
        self._killed = False
        try:
            backend = backend_for(self.task_id)
            self._credentials = credentials.for_commands()
        except ConfigError as error:
            raise self.refused(error, context) from None
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            outcome = Path(folder, "outcome.json")
            text = json.dumps({**spec, "outcome": str(outcome)}, ensure_ascii=False)
            self._job = backend([*arguments, "--spec", "-"], text, self._credentials.environment)
            try:
                code, tail = self.relay(self._job)
            except KeyboardInterrupt:
                raise self.refused(TryAgain("interrupted at the keyboard", next_step=CONTINUES), context) from None
            if self._killed:
                raise AirflowException(f"{self.task_id} was stopped by Airflow")
            if code != 0:
                words = tail if last_words.are_words(tail) else self.words_of_the_dead(code, arguments, spec)
                raise self.failed(code, words)
            return self.taken(json.loads(outcome.read_text("utf-8")) if outcome.exists() else {})

    def relay(self, job: Job) -> tuple[int, list[str]]:
        """Log the command's lines as they come; its exit code and its last five lines."""
        tail: deque[str] = deque(maxlen=len(FIVE_LINES))
        try:
            if self._killed:  # while the command was being started
                job.stop()
            for line in map(self._credentials.hide, job.lines()):
                self.log.info("%s", line)
                tail.append(line)
            return job.exit_code(), list(tail)
        finally:
            job.stop()  # also after a timeout or an interrupt: nothing may be left running

    def failed(self, code: int, words: list[str]) -> AirflowException:
        """The exception that makes Airflow retry or not, by the command's exit code."""
        failure = self.failure(words)
        return AirflowException(*failure.args) if code in RETRY_CODES else failure

    def words_of_the_dead(self, code: int, arguments: list[str], spec: Mapping[str, Any]) -> list[str]:
        """The five lines of a command that had no time to say them."""
        cause, next_step = f"ended with exit code {code}", "read the lines above"
        if code - 128 in set(signal.Signals):
            cause = f"killed by {signal.Signals(code - 128).name}"
            next_step = "look for an out-of-memory kill (dmesg), then run it on fewer workers or with more memory"
        inputs = ", ".join(f"{name}={uri}" for name, uri in spec.get("inputs", {}).items())
        command = shlex.join([str(ROOT / "bin" / "with-env"), "python", "-m", "tasks", *arguments, "--spec", "-"])
        reproduce = f"printf %s {shlex.quote(json.dumps(spec, ensure_ascii=False))} | {command}"
        return five_lines(stage=self.task_id, cause=cause, given=inputs, next_step=next_step, reproduce=reproduce)

    def taken(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Keep what the link needs of an outcome.

        Raises:
            AirflowSkipException: no new data has come, so there is nothing to do, here and in the tasks after this one.
        """
        self.mlflow_url = str(outcome.get("mlflow_url") or self.mlflow_url)
        if "nothing_new" in outcome:
            self.log.info("nothing to do: %s", outcome["nothing_new"])
            raise AirflowSkipException(outcome["nothing_new"])
        return outcome

    def on_kill(self) -> None:
        """Let go of the command and return: Airflow waits five seconds, the reaper as long as a checkpoint takes."""
        self._killed = True
        if self._job is not None:
            self._job.stop()


def chosen_knobs(context: Context) -> dict[str, Any]:
    """``stage.knob`` → value of the trigger form: its dials, then the ``overrides`` object.

    Raises:
        ConfigError: when the run was triggered with a name that the form does not have.
    """
    params, known = dict(context["params"]), list(context["dag"].params)
    unknown = [f"{name}: no such parameter{near(name, known)}" for name in params if name not in known]
    if unknown:
        raise ConfigError("the run was triggered with unknown parameters", unknown)
    dials = {name: value for name, value in params.items() if "." in name}
    return {**dials, **params.get("overrides", {})}
