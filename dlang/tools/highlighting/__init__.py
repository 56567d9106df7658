"""Colours for programs, all made from `grammar/vocabulary.py`: a lexer for Pygments, and an extension for VS Code.

`python -m dlang.tools.highlighting FOLDER` writes the files of the extension that are made.
"""
