"""Help while a program is written, in an editor and in the session, whatever shows it.

`situation.py` finds where a place is in a text that may be half written, and the call around it; `signatures.py` has
functions in a line, describes what the compiler knows, and tells whether a parameter may take a value.
"""
