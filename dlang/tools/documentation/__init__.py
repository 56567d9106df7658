"""`dlc doc`: pages of HTML about modules, from their `##` lines and inferred signatures. They need no network.

`modules.py` finds what there is to say, and `pages.py` makes the files: where names lead, HTML of Markdown and of code,
and the pages. `assets/` is copied.
"""
