"""The site of the documentation: built with all its links checked, and every page in it as a Git host shows it."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TAGS = ("h1", "h2", "h3", "li", "table", "tr", "pre", "code", "strong", "em")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_site_shows_a_page_as_a_git_host_does(site: Path, page: Path) -> None:
    """The site's Markdown is not CommonMark: a list that follows its paragraph's last line, say, is none there."""
    article = _Article()
    article.feed((site / page.relative_to(DOCS)).with_suffix(".html").read_text())
    parsed = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    assert {tag: article.tags[tag] for tag in TAGS} == {tag: _tags(parsed)[tag] for tag in TAGS}


def _tags(tokens: Iterable[Token]) -> Counter[str]:
    found: Counter[str] = Counter()
    for token in tokens:
        if token.type in ("fence", "code_block"):
            found["pre"] += 1
            found["code"] += 1
        elif token.nesting >= 0:
            found[token.tag] += 1
        found += _tags(token.children or ())
    return found


class _Article(HTMLParser):
    """Counts the tags of the page itself, without what the theme puts around it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = self._inside or tag == "article"
        self.tags[tag] += self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "article"
