from dataclasses import dataclass, field
from typing import Annotated

import pytest
from pydantic import Field

from tasks.core.config import Config, dial, identity_of, knobs_of, later, plain, runtime, schema_of, validated
from tasks.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner(Config):
    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    where: str = runtime("here")


@dataclass(frozen=True, kw_only=True)
class SomeConfig(Config):
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.8
    """From which similarity two documents are copies."""
    size: int = dial(10)
    workers: int = runtime(2)
    inner: Inner = field(default_factory=Inner)
    many: tuple[Inner, ...] = ()


def test_all_wrong_knobs_are_named_at_once_with_what_was_given():
    with pytest.raises(ConfigError) as caught:
        validated(SomeConfig, {"threshold": 7, "size": "x", "inner": {"share": -1}}, stage="dedup")
    assert caught.value.problems == [
        "dedup.threshold: must be less than or equal to 1 (got 7)",
        "dedup.size: must be a valid integer, unable to parse string as an integer (got 'x')",
        "dedup.inner.share: must be greater than or equal to 0 (got -1)",
    ]
    assert caught.value.exit_code == 2


def test_an_unknown_knob_is_named_with_the_likely_one():
    with pytest.raises(ConfigError, match=r"dedup\.treshold: no such knob; did you mean dedup\.threshold\?"):
        validated(SomeConfig, {"treshold": 0.7}, stage="dedup")


def test_nan_is_no_threshold():
    with pytest.raises(ConfigError, match="finite number"):
        validated(SomeConfig, {"inner": {"share": float("nan")}}, stage="dedup")


def test_runtime_knobs_stay_out_of_the_identity_at_every_depth():
    one = SomeConfig(workers=1, many=(Inner(where="a"),))
    other = SomeConfig(workers=8, many=(Inner(where="b"),))
    assert identity_of(one) == identity_of(other)
    assert plain(one) != plain(other)
    assert identity_of(one) != identity_of(SomeConfig(many=(Inner(share=0.2),)))


def test_knobs_are_found_by_kind():
    assert list(knobs_of(SomeConfig, "dial")) == ["size"]
    assert list(knobs_of(SomeConfig, "runtime")) == ["workers"]


def test_the_attribute_docstring_is_the_help():
    described = schema_of(SomeConfig)["properties"]["threshold"]
    assert described["description"] == "From which similarity two documents are copies."
    assert (described["exclusiveMinimum"], described["maximum"]) == (0, 1)


def test_a_value_of_ten_thousand_characters_is_shortened_in_the_message():
    with pytest.raises(ConfigError) as caught:
        validated(SomeConfig, {"size": "9" * 10_000 + "x"}, stage="dedup")
    assert len(str(caught.value)) < 300


@dataclass(frozen=True, kw_only=True)
class GrownConfig(Config):
    threshold: float = 0.8
    modes: tuple[str, ...] = later(("fast",), neutral=["slow"])
    inner: Inner = field(default_factory=Inner)


def test_a_later_knob_is_in_the_identity_only_where_it_is_not_neutral():
    assert identity_of(GrownConfig(modes=("slow",))) == {"threshold": 0.8, "inner": {"share": 0.1}}
    assert identity_of(GrownConfig())["modes"] == ["fast"]
