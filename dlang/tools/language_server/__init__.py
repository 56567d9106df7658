"""`dlc lsp`: a language server, for editors.

`documents.py` has the files, open or not, with what is known of each: its tree, its types (`typecheck/program.py`
checks again what an edit touches), the names in it. `names.py` finds by scopes alone what a name stands for, also in a
file that does not check; `references.py` decides what is left open there, over all files. Each feature is a file of
functions of a document and a position; `server.py` binds them to the protocol, which is pygls's. What the session
needs, too, such as the call around a place, is in `tools/assistance.py`.

Names are found by scopes, so a keystroke costs only the declaration that it changed; a test compares them with what the
checker says of every name in the library and the examples. A rename gives the files its texts for a moment
(`Project.rewritten`) and compares what all names stand for, before and after; the checks are made in a copy of what is
kept (`Workspace.trial`). There are no threads: what looks at many files is a generator (`protocol.py`), and the server
answers others between its steps. Long answers keep what they have of each declaration (`protocol.py`, `tokens.py`). A
test makes random edits, undoes some, and compares what the server says with what a fresh one does.
"""
