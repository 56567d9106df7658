"""The GPU that is there, through CuPy and the libraries that CuPy uses. Nothing here is imported without need.

`libraries` finds what is installed, `compiler` makes machine code of kernels, `arrays` sees the arrays of other
libraries on the device, and `driver` does what `runtime/devices.py` says.
"""
