"""Arrays on the GPU, through CuPy: `libraries` finds what is installed, `arrays` sees the arrays of other libraries."""
