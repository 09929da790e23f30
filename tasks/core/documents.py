"""Documents on disk: one schema, one writer, one digest.

A folder ``documents/`` of Parquet shards. A document lives in shard ``hash(id) mod num_shards`` and a shard is
sorted by id, so the bytes do not depend on the number of workers or the order of arrival. Stages may add
columns (``language``, ``cluster``); they never rename or drop the five of :data:`SCHEMA`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from tasks.core.errors import DataError
from tasks.core.location import names_in

FOLDER = "documents"

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_digest", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("meta", pa.string(), nullable=False),
    ]
)
"""``meta`` is a JSON object: what the source said besides the text (title, path, the two sides of a pair)."""


def text_digest(text: str) -> str:
    """Digest of the text alone (128 bits of BLAKE2b, hexadecimal): equal for exact copies."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def document_id(source: str, natural_key: str, digest: str) -> str:
    """Identifier of a document: unique, carried unchanged through every stage.

    ``natural_key`` is the row's own key or its position; ``digest`` is the :func:`text_digest` at ingestion.
    """
    joined = "\x1f".join((source, natural_key, digest))
    return hashlib.blake2b(joined.encode("utf-8"), digest_size=16).hexdigest()


def shards_of(artifact: UPath) -> list[UPath]:
    """The Parquet shards of an artifact that holds documents, in order.

    Raises:
        DataError: when there are none.
    """
    folder = artifact / FOLDER
    found = [folder / name for name in names_in(folder) if name.startswith("part-") and name.endswith(".parquet")]
    if not found:
        raise DataError(f"{artifact} holds no documents", subject=str(artifact), next_step="make that stage again")
    return found


def schema_of(artifact: UPath) -> pa.Schema:
    """The columns of an artifact's documents, which are those of its first shard."""
    with shards_of(artifact)[0].open("rb") as file:
        return pq.ParquetFile(file).schema_arrow


def read_table(artifact: UPath, columns: list[str] | None = None) -> pa.Table:
    """All documents as one table, in shard order. For stages whose work fits in memory."""
    return pa.concat_tables([read_shard(path, columns) for path in shards_of(artifact)])


def read_shard(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """One shard as a table."""
    with path.open("rb") as file:
        # Not pq.read_table: it imports pyarrow.dataset, and that pandas, which costs every process a second or more.
        return pq.ParquetFile(file).read(columns=columns)


def iter_batches(artifact: UPath, columns: list[str] | None = None, rows: int = 1024) -> Iterator[pa.RecordBatch]:
    """All documents in batches of at most ``rows``, with one shard's row group in memory at a time."""
    for path in shards_of(artifact):
        with path.open("rb") as file:
            yield from pq.ParquetFile(file).iter_batches(batch_size=rows, columns=columns)


def write_shard(out: UPath, shard: int, table: pa.Table) -> None:
    """Write one shard, sorted by id. The only function that writes documents.

    Raises:
        DataError: when two documents of the shard have the same id.
    """
    table = table.sort_by("id")
    ids = table["id"]
    if pc.count_distinct(ids).as_py() != len(ids):
        raise DataError("two documents have the same id", next_step="give the source a natural key that is unique")
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"part-{shard:05d}.parquet").open("wb") as file:
        pq.write_table(table, file, compression="zstd", row_group_size=16_384)


def write_documents(out: UPath, table: pa.Table, num_shards: int) -> None:
    """Distribute a table over ``num_shards`` shards by hash of the id and write them all, empty ones too."""
    shard_of = pa.array([shard_number(one, num_shards) for one in table["id"].to_pylist()], pa.int32())
    for shard in range(num_shards):
        write_shard(out, shard, table.filter(pc.equal(shard_of, shard)))


def shard_number(document: str, num_shards: int) -> int:
    """Shard of a document id: its first 64 bits modulo ``num_shards``."""
    return int(document[:16], 16) % num_shards


def table_of(rows: Iterable[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows as a table of the documents' schema."""
    return pa.Table.from_pylist(list(rows), schema=schema)


def rows_digest(artifact: UPath) -> str:
    """Content digest of documents: of the rows, not of the Parquet bytes, so a new writer version changes nothing.

    Rows are read shard by shard in id order; columns are taken in name order. Each string is digested with
    its length before it and anything else as its Python literal, so no two tables share a byte stream.
    """
    digest = hashlib.sha256()
    for path in shards_of(artifact):
        table = read_shard(path)
        names = sorted(table.column_names)
        digest.update(repr((path.name, names, [str(table.schema.field(name).type) for name in names])).encode())
        for batch in table.select(names).combine_chunks().to_batches(max_chunksize=1024):
            for column in batch.columns:
                digest.update(_column_bytes(column))
    return digest.hexdigest()


def _column_bytes(column: pa.Array) -> bytes:
    if pa.types.is_string(column.type):
        return b"".join(b"%d:%b" % (len(value), value) for value in column.cast(pa.binary()).to_pylist())
    return repr(column.to_pylist()).encode("utf-8", "surrogatepass")
