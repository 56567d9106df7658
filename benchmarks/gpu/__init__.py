"""The language beside its peers on a GPU, and beside what the device can do. `python -m benchmarks.gpu` runs it."""
