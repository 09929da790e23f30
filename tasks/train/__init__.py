"""Train a causal language model from its configuration, on token shards."""
