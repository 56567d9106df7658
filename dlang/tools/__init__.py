"""What a person runs: the command `dlc`. It begins in `dlc.py`, and `command_line.py` reads its words;
each command is a file.

Sees the whole compiler, through `driver.py`, and is seen by none of it.
"""
