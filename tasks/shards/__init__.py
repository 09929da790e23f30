"""Stage: split the documents and store their tokens in memory-mapped shards."""
