"""Sources on a local disk, on S3 and on HDFS are read alike."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from tasks.core.artifact import content_digest, files_of
from tasks.core.config import validated
from tasks.core.stage import fingerprint
from tasks.ingest import stage
from tasks.ingest.config import IngestConfig

LINES = "".join(json.dumps({"text": f"Line {number} 第{number}行"}, ensure_ascii=False) + "\n" for number in range(300))


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": [f"row {number}" for number in range(50)]}), buffer)
    return buffer.getvalue()


FILES = {
    "lines/one.jsonl": LINES.encode(),
    "lines/two.jsonl.gz": gzip.compress(LINES.encode("gb18030"), mtime=0),
    "lines/_SUCCESS": b"",
    "rows/part-0.parquet": parquet(),
    "pages/deep er/文 件.html": "<html><body><p>A page 网页</p></body></html>".encode(),
    "nights/2026-11-01/a.txt": b"the first night",
    "nights/2026-11-02/a.txt": b"the second night",
}


def config(root: str) -> IngestConfig:
    sources = [
        {"name": "lines", "path": f"{root}/lines", "format": "jsonl"},
        {"name": "one", "path": f"{root}/lines/one.jsonl", "format": "jsonl"},
        {"name": "rows", "path": f"{root}/rows/*.parquet"},
        {"name": "pages", "path": f"{root}/pages", "format": "html"},
        {"name": "nights", "path": f"{root}/nights/{{partition}}", "format": "text"},
    ]
    knobs = {"sources": sources, "partition": "2026-11-02", "since": "2026-11-01", "num_shards": 2}
    made = validated(IngestConfig, knobs, stage="ingest")
    assert isinstance(made, IngestConfig)
    return made


def written(root: str) -> str:
    for name, data in FILES.items():
        path = UPath(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def seen(root: str, out: UPath) -> tuple:
    """Numbers, digest of the documents, and fingerprint."""
    out.mkdir(parents=True)
    result = stage.run(config(root), out=out)
    return result, content_digest(out, files_of(out)), fingerprint("ingest", config(root))


@pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
def test_a_source_says_the_same_wherever_it_lies(store_root, tmp_path):
    there = seen(written(store_root), UPath(tmp_path / "there"))
    here = seen(written(str(tmp_path / "sources")), UPath(tmp_path / "here"))
    assert there == here
