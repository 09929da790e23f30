"""Personal data in batches of documents, in the text and in what is kept beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.core.documents import text_digest
from tasks.text.pii import redact

NOT_TEXT = frozenset(("file",))
"""Fields of meta that name a place and not what was said there."""


@dataclass(frozen=True)
class RedactBatch:
    """The pure function of this stage: a batch with texts and meta redacted and digests made new."""

    kinds: tuple[str, ...]
    keep_local: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Redact one batch; columns and rows stay as they are."""
        columns = {name: batch.column(name).to_pylist() for name in ("text", "text_digest", "meta")}
        for row, text in enumerate(columns["text"]):
            columns["meta"][row] = self.meta(columns["meta"][row])
            clean = self.text(text)
            if clean != text:
                columns["text"][row], columns["text_digest"][row] = clean, text_digest(clean)
        for name, values in columns.items():
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, batch.schema.field(place), pa.array(values, pa.string()))
        return batch

    def text(self, text: str) -> str:
        """A text without personal data."""
        return redact(text, self.kinds, keep_local=self.keep_local)[0]

    def meta(self, meta: str) -> str:
        """A meta with every string in it redacted as the text is; the very same JSON when nothing was found.

        Two sides of a translation pair are kept in meta, and must read as they do in the text.
        """
        values = json.loads(meta)
        clean = {name: value if name in NOT_TEXT else self._value(value) for name, value in values.items()}
        return meta if clean == values else json.dumps(clean, ensure_ascii=False, sort_keys=True)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(one) for one in value]
        if isinstance(value, dict):
            return {name: self._value(one) for name, one in value.items()}
        return value
