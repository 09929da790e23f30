"""Stage: train the byte-level BPE tokenizer on the training documents."""
