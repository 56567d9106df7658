"""The GPU that is there, through CuPy and the libraries that CuPy uses. Nothing here is imported without need.

`compiler` makes machine code of kernels, and `driver` does what `runtime/devices.py` says.

Memory is that of CuPy's pool, work is on its current stream, and arrays of other libraries that are on the device
(DLPack, `__cuda_array_interface__`) are seen there and never copied to the host; their owners may use them anew only
when the work that reads them is done (`Driver.end_loans`). A graph is captured on a stream of its own. Products of f32
have whole operands unless `DLANG_TF32=1` says otherwise, and those of half precision are added up in f32. A kernel that
runs can't be interrupted.
"""
