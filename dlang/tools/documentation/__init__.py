"""`dlc doc`: pages of HTML about modules, from their `##` lines and inferred signatures. They need no network.

`modules.py` finds what there is to say, `links.py` where names lead, `prose.py` makes HTML of Markdown and of code,
`pages.py` the pages, `site.py` the files; `assets/` is copied.
"""
