"""Hums."""
