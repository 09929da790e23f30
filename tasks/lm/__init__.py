"""Pieces that several stages share and that know language models: tokens, architectures, generation."""
