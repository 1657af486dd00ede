"""Charts rendered by the real Helm."""

import functools

import pytest
import yaml

from support.manifests import Render
from support.tools import CHART, command, tool


@functools.cache
def _render(args: tuple[str, ...]) -> str:
    return command(tool("helm"), "template", "rt", CHART, "--namespace", "ringtrain-system", *args)


@pytest.fixture
def render() -> Render:
    """render("--set", "a=b") -> the manifests. Raises CommandError when Helm refuses."""
    return lambda *args: [manifest for manifest in yaml.safe_load_all(_render(args)) if manifest]
