"""Stage: make the challenger the champion, if it is better."""
