"""A trained model as ONNX with a key-value cache, and its INT8 form, each held to contracts."""
