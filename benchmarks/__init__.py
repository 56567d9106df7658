"""Side-by-side measurements: the same program in the language and in its peers. `python -m benchmarks` runs them."""
