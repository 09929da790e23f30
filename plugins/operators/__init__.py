"""Operators, where their commands run, and the process that cleans up after them."""
