"""Pictures of arrays: `picture.py` says what is in one, `canvas.py` draws it in characters, `figures.py` in files."""
