"""Writes the pages."""

from reference import texts

for file, text in texts().items():
    file.write_text(text)
