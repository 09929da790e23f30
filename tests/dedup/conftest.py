import pytest
from upath import UPath

from tests.dedup.corpora import write


@pytest.fixture
def corpus(tmp_path):
    """Writes texts as an artifact and gives its path."""

    def made(texts, metas=None, name="in", num_shards=3, first=0):
        return write(UPath(tmp_path) / name, texts, metas, num_shards, first)

    return made


@pytest.fixture
def out(tmp_path):
    return UPath(tmp_path) / "out"
