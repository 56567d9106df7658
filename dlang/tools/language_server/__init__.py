"""`dlc lsp`: a language server, for editors.

`documents.py` has the files, open or not, with what is known of each: its tree, its types (`typecheck/workspace.py`
checks again what an edit touches), the names in it. `names.py` finds by scopes alone what a name stands for, also in a
file that does not check; `definitions.py` decides what is left open there, over all files. Each feature is a file of
functions of a document and a position; `server.py` binds them to the protocol, which is pygls's. What the session
needs, too, such as the call around a place, is in `tools/assistance/`.
"""
