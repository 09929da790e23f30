"""Runs the stage, or one document of it, on texts a test writes."""

import json

import pytest
from upath import UPath

from tasks.clean.cleaner import Cleaned, Cleaner
from tasks.clean.config import CleanConfig
from tasks.clean.stage import run
from tasks.core import documents
from tasks.core.config import validated

PROSE = (
    "The river had been low since the middle of May, and the miller walked along the bank every morning to look at "
    "the stones that nobody had seen for years. He told his daughter that they would have to wait for rain. She did "
    "not believe him, because the clouds over the hills had been growing darker with each day that passed. On Sunday "
    "evening the wind turned to the west, and by midnight the first drops were falling on the dry wooden wheel."
)
CHINESE_PROSE = (
    "五月中旬以来，河水一直很浅，磨坊主每天早晨都沿着河岸散步，看那些多年没有人见过的石头。他对女儿说，他们只能等待下雨。"
    "女儿并不相信，因为山那边的云一天比一天更黑。星期天傍晚，风向转西，到了半夜，第一阵雨点落在干燥的木轮上。"
    "第二天清晨，村里的人都站在桥上，听着水声越来越大。磨坊主把闸门慢慢打开，木轮先是轻轻晃动，然后开始转动，"
    "发出他们已经忘记的声音。孩子们在岸边奔跑，老人们点起烟斗，谁也没有说话。到了中午，面粉的香气又一次从窗口飘了出来。"
)


@pytest.fixture(scope="session")
def prose():
    return PROSE


@pytest.fixture(scope="session")
def chinese_prose():
    return CHINESE_PROSE


@pytest.fixture
def clean():
    """``clean(text, source="web", knob=value, **)``: one document through the stage's function."""

    def go(text, source="web", meta=None, **knobs) -> Cleaned:
        config = validated(CleanConfig, knobs, stage="clean")
        return Cleaner(config).clean(text, json.dumps(meta or {}, ensure_ascii=False), source)

    return go


@pytest.fixture
def cleaned(tmp_path):
    """``cleaned([(text, source, meta), …], knob=value)``: the whole stage."""

    def go(rows, **knobs):
        before, after = UPath(tmp_path / "before"), UPath(tmp_path / f"after{len(list(tmp_path.iterdir()))}")
        table = []
        for number, (text, source, meta) in enumerate(rows):
            digest = documents.text_digest(text)
            key = documents.document_id(source, str(number), digest)
            meta = json.dumps(meta, ensure_ascii=False)
            table.append({"id": key, "text": text, "text_digest": digest, "source": source, "meta": meta})
        documents.write_documents(before, documents.table_of(table), 3)
        return run(validated(CleanConfig, {"workers": 1} | knobs, stage="clean"), before, out=after), after

    return go
