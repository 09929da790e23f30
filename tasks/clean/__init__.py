"""Clean: broken text is repaired, its language told, and what no reader would miss is dropped."""
