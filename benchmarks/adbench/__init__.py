"""ADBench's objectives and their derivatives: `python -m benchmarks.adbench` checks and times them."""
