"""What the triggerer waits for."""
