"""Promote: the packaged model becomes the champion of the model registry, or is rejected with the reasons.

Rejecting is a result and no failure: the service goes on with the model it has.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from upath import UPath

from tasks.core import champion, events
from tasks.core.champion import Champion, names_same
from tasks.core.errors import DataError
from tasks.promote.config import PromoteConfig

VERSION = 1
CACHED = False


@dataclass(frozen=True)
class PromoteResult:
    """What was decided."""

    kept: bool
    """Whether the packaged model is the champion now."""
    reason: str
    champion: str
    """``models:/<name>/<version>`` of the champion from now on."""
    partition: str
    """The newest partition that champion has learned from."""
    vs_champion: float
    """The challenger's bits per byte over those of the champion it was compared with."""


def run(config: PromoteConfig, bento: UPath, evaluation: UPath, *, out: UPath) -> PromoteResult:
    """Decide, move the alias ``champion`` if the challenger is kept, and write ``decision.json``.

    Raises:
        ConfigError: there is no champion to compare with.
        DataError: the evaluation did not compare with the champion, or the model is not registered.
        ServiceError: the model registry does not answer.
    """
    compared = comparison_in(evaluation)
    name = str(json.loads((bento / "bento.json").read_text("utf-8"))["limits"]["model_name"])
    now = champion.needed_champion(name)
    if names_same(now.uri, str(bento)):
        result = decided(now, compared, kept=True, reason="it is the champion already")
    elif problems := objections(config, compared, now):
        result = decided(now, compared, kept=False, reason="; ".join(problems))
    else:
        made = champion.crown(name, str(bento), config.partition)
        result = decided(made, compared, kept=True, reason=f"better than version {now.version}: {told(compared)}")
    (out / "decision.json").write_text(json.dumps(asdict(result), ensure_ascii=False, indent=1) + "\n", "utf-8")
    events.note(f"{'kept' if result.kept else 'rejected'}: {result.reason}; the champion is {result.champion}")
    return result


def decided(holder: Champion, compared: dict[str, Any], *, kept: bool, reason: str) -> PromoteResult:
    """The result, once it is clear who the champion is."""
    return PromoteResult(
        kept=kept,
        reason=reason,
        champion=f"models:/{holder.model}/{holder.version}",
        partition=holder.partition,
        vs_champion=compared["ratio"],
    )


def comparison_in(evaluation: UPath) -> dict[str, Any]:
    """What the evaluation says of the challenger beside the champion.

    Raises:
        DataError: it says nothing.
    """
    compared: dict[str, Any] | None = json.loads((evaluation / "evaluation.json").read_text("utf-8")).get("vs_champion")
    if compared is None:
        raise DataError(
            "the evaluation did not compare the model with the champion",
            subject=str(evaluation),
            next_step='give the step of evaluate the input {"champion": champion["train"]}',
        )
    return compared


def objections(config: PromoteConfig, compared: dict[str, Any], now: Champion) -> list[str]:
    """Every reason against the challenger; empty when it is to be kept."""
    problems = []
    if now.version != config.champion:
        problems.append(
            f"it was compared with version {config.champion}, and version {now.version} is the champion now"
        )
    if config.partition and config.partition <= now.partition:
        problems.append(f"its partition {config.partition} is not newer than the champion's {now.partition}")
    if not compared["high"] <= config.max_vs_champion:
        problems.append(f"{told(compared)}, at most {config.max_vs_champion:g} is allowed at the upper end")
    problems += [
        f"{ratio:.4f} of them in {language}, at most {config.max_language_vs_champion:g} is allowed"
        for language, ratio in compared["by_language"].items()
        if not ratio <= config.max_language_vs_champion
    ]
    return problems


def told(compared: dict[str, Any]) -> str:
    """The comparison in words."""
    return f"{compared['ratio']:.4f} [{compared['low']:.4f}, {compared['high']:.4f}] of the champion's bits per byte"
