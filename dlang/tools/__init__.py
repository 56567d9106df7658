"""The command `dlc`. It begins in `dlc.py`, and `command_line.py` parses its arguments; each subcommand is a file.

Sees the whole compiler, through `driver.py`, and is seen by none of it.
"""
