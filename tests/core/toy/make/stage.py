"""Makes documents, slowly or wrongly if asked to."""

import errno
import time
from dataclasses import dataclass

from tasks.core import documents, events
from tasks.core.errors import DataError, NothingNew

VERSION = 1


@dataclass(frozen=True)
class MakeResult:
    """How many were made."""

    num_documents: int


def run(config, *, out):
    (out / "first.txt").write_text(f"half of it{config.luck}")
    if config.fail == "data":
        raise DataError("the data is bad", subject="row 7", next_step="mend row 7")
    if config.fail == "nothing":
        raise NothingNew("nothing has come", next_step="wait")
    if config.fail == "disk":
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")
    if config.fail == "bug":
        raise ZeroDivisionError("a bug")
    time.sleep(config.pause_s)
    rows = []
    for number in range(config.num_documents):
        text = f"{config.prefix} {number}"
        digest = documents.text_digest(text)
        name = documents.document_id("toy", str(number), digest)
        rows.append({"id": name, "text": text, "text_digest": digest, "source": "toy", "meta": "{}"})
    documents.write_documents(out, documents.table_of(rows), 2)
    events.metric("rate", 3.0)
    return MakeResult(config.num_documents)
