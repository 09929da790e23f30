"""The source that goes into the package; with ``tasks.lm.onnx_generation`` and ``tasks.lm.completion_text`` it is
all the code the served package holds. It imports neither torch nor transformers."""
