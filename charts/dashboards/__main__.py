"""Writes the dashboards into the chart."""

from dashboards import FOLDER, texts

FOLDER.mkdir(exist_ok=True)
for name, text in texts().items():
    (FOLDER / name).write_text(text)
