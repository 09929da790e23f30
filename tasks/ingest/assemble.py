"""A row becomes a document: its text, its id, and what is kept beside the text."""

from __future__ import annotations

import json
from string import Formatter
from typing import Any

from tasks.core.documents import document_id, text_digest
from tasks.core.errors import ConfigError
from tasks.ingest.config import Source, columns_of
from tasks.ingest.files import SourceFile
from tasks.ingest.readers import WHOLE
from tasks.ingest.rows import Malformed, Row, malformed

ROWS_WITHOUT_COLUMN = 1000
"""After so many rows that all lack a column, it is the knob that is wrong and not the rows."""


class Assembler:
    """Makes documents of the rows of one source."""

    def __init__(self, source: Source, knob: str) -> None:
        self._source = source
        self._knob = knob
        self._parts = [(literal, name) for literal, name, _, _ in Formatter().parse(source.template)]
        self._text_columns = columns_of(source.template) or [source.text_column]
        self._meta_columns = [*columns_of(source.template), *source.meta_columns]
        self._seen: dict[str, None] = {}
        self._num_seen = 0
        self.columns = list(dict.fromkeys([*self._text_columns, *self._meta_columns, source.id_column]))
        """The columns that the knobs name."""

    def see_columns(self, columns: list[str]) -> None:
        """Learn which columns the source has."""
        self._seen.update(dict.fromkeys(columns))

    def check_columns(self) -> None:
        """Refuse a source in which a column was never seen.

        Raises:
            ConfigError: with the columns that were found and the knob to set, for every missing one.
        """
        if not self._seen:
            return
        source, found = self._source, ", ".join(self._seen)
        wanted = [("template" if source.template else "text_column", name) for name in self._text_columns]
        wanted += [("meta_columns", name) for name in source.meta_columns]
        wanted += [("id_column", source.id_column)] if source.id_column else []
        problems = [
            f"{self._knob}.{knob}: source {source.name!r} has no column {name!r}; found: {found}"
            for knob, name in wanted
            if name not in self._seen
        ]
        if problems:
            raise ConfigError("the columns of a source are not those of its knobs", problems)

    def document(self, row: Row, file: SourceFile) -> dict[str, Any] | Malformed | None:
        """The document of a row; None when its text is empty."""
        if file.format in WHOLE:
            # Such a row has no columns of its own; the knob names those of tables.
            row = Row(row.position, row.values | {self._source.text_column: row.values["text"]})
        self._num_seen += 1
        if self._num_seen <= ROWS_WITHOUT_COLUMN:
            self.see_columns(list(row.values))
            if self._num_seen == ROWS_WITHOUT_COLUMN and not any(name in self._seen for name in self._text_columns):
                self.check_columns()
        values = [row.values.get(name) for name in self._text_columns]
        if any(value is None for value in values):
            return malformed(row.position, "missing_text", row.values)
        if not all(isinstance(value, str) for value in values):
            return malformed(row.position, "text_not_a_string", row.values)
        if not all(value.strip() for value in values):  # type: ignore[union-attr]
            return None
        return self._assembled(row, file)

    def _assembled(self, row: Row, file: SourceFile) -> dict[str, Any] | Malformed:
        source, text = self._source, self._text(row)
        key = f"{file.name}:{row.position}"
        if source.id_column:
            value = row.values.get(source.id_column)
            if value is None:
                return malformed(row.position, "missing_id", row.values)
            key = f"{file.partition}/{value}" if file.partition else str(value)
        meta = {"file": file.name, "row": row.position} | self._meta(row, file.format)
        try:
            digest = text_digest(text)
            return {
                "id": document_id(source.name, key, digest),
                "text": text,
                "text_digest": digest,
                "source": source.name,
                "meta": _json(meta),
            }
        except UnicodeEncodeError:
            # Half of a surrogate pair stands for no character: there is nothing to repair it to.
            return malformed(row.position, "lone_surrogate", text)

    def _text(self, row: Row) -> str:
        if not self._source.template:
            text: str = row.values[self._source.text_column]
            return text
        return "".join(literal + (row.values[name] if name else "") for literal, name in self._parts)

    def _meta(self, row: Row, kind: str) -> dict[str, Any]:
        names = [*self._meta_columns, "title"] if kind == "html" else self._meta_columns
        return {name: row.values[name] for name in names if row.values.get(name) is not None}


def _json(meta: dict[str, Any]) -> str:
    """Meta as JSON in UTF-8; values JSON does not know (dates, decimals) are written as their text."""
    text = json.dumps(meta, ensure_ascii=False, sort_keys=True, default=str)
    text.encode("utf-8")
    return text
