"""`dlc doc`: pages of HTML about modules, from their `##` lines and inferred signatures. They need no network.

`pages.py` finds what there is to say and makes the files: where names lead, HTML of Markdown and of code, and the
pages. `assets/` is copied.
"""
