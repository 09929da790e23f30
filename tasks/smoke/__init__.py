"""A check: the packaged service, started as a user would, answers what the model answers."""
