"""What a person runs: the command `dlc`. `dlc.py` reads the command line; each command is a file.

Sees the whole compiler, through `driver.py`, and is seen by none of it.
"""
