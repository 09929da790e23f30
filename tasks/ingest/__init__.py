"""Ingest: files in the formats people keep text in become documents."""
