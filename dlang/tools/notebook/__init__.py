"""Programs in notebooks: cells of a Python notebook (`%load_ext dlang`), and a kernel of its own for Jupyter.

Both are conversations as in `dlc repl` (`cells.py`); `magics.py` hands values to Python and takes them from there.
"""
