"""Programs that are timed, one module each; `benchmarks.tools` says what is in one."""
