"""A compressed model as a BentoML service that answers in the shape of OpenAI's completions."""
