"""A pipeline of toy stages; only its text is read, so the names need not exist."""

made = step(stage="make")  # noqa: F821
counted = step(stage="count", inputs={"documents": made.output})  # noqa: F821
checked = step(stage="check", inputs={"count": counted.output})  # noqa: F821
