"""How good a model is on text it has not seen, beside what simpler models reach."""
