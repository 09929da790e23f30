"""Redact: personal data becomes typed placeholders."""
