"""Pages that are made of the code: `PYTHONPATH=tools python -m reference`, in the repository's root, writes them."""

from collections.abc import Mapping
from pathlib import Path

from reference import fields, page, values

_ROOT = Path(__file__).parents[2]


def texts() -> Mapping[Path, str]:
    """By file."""
    chart = _ROOT / "charts" / "ringtrain"
    return {
        _ROOT / "docs" / "fields.md": fields.text(),
        _ROOT / "docs" / "reference.md": page.text(),
        chart / "README.md": values.text((chart / "values.yaml").read_text()),
    }
