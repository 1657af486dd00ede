"""The commands that the documentation shows."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "charts" / "ringtrain" / "README.md",
    ROOT / "testbed" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
PROGRAMS = ("docker", "helm", "kubectl", "make", "pip", "pytest", "python", "ringtrain")
"""What commands begin with, and paths below testbed/. Other lines are what they print."""

_SHELL = ("", "sh", "console")
_PLACEHOLDERS = {"COMMAND": "status", "DIGEST": "0" * 64}
_LOOP = re.compile(r"for (\w+) in ([^;]+); do (.+); done")
_NESTED = re.compile(r"\$\(([^()]+)\)")
_ASSIGNMENT = re.compile(r"\w+=.*")
_BETWEEN = {";", "&&", "||", "|"}


@dataclass(frozen=True)
class Command:
    page: Path
    line: int
    words: tuple[str, ...]
    """Program and arguments; of `.venv/bin/NAME` the name, without `sudo` and variables before it."""
    inline: bool = False
    """It stands within a sentence, and may lack arguments."""

    @property
    def program(self) -> str:
        """kubectl's plugin is `ringtrain`."""
        if self.words[:2] == ("kubectl", "ringtrain"):
            return "ringtrain"
        return "testbed" if self.words[0].startswith("testbed/") else self.words[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[self.words.index(self.program) + 1 :] if self.program in self.words else self.words[1:]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line} {shlex.join(self.words)}"


def shown(*programs: str, inline: bool = True) -> list[Command]:
    """Of all pages, those that begin with one of `programs`; without `inline` only those in blocks of code."""
    found = (command for page in PAGES for command in commands_in(page, page.read_text()))
    return [command for command in found if command.program in programs and (inline or not command.inline)]


def commands_in(page: Path, text: str) -> Iterator[Command]:
    for token in MarkdownIt("commonmark").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type in ("code_block", "fence") and token.info in _SHELL:
            for offset, shown in _lines(token.content):
                for words in simple(shown):
                    yield Command(page, line + offset + (token.type == "fence"), words)
        for child in token.children or ():
            if child.type == "code_inline" and " " in child.content and "…" not in child.content:
                for words in simple(child.content):
                    yield Command(page, line, words, inline=True)


def _lines(block: str) -> Iterator[tuple[int, str]]:
    """(number, command) of a block of code, none if its first line is no command."""
    lines = block.splitlines()
    if any(line.startswith("$ ") for line in lines):
        yield from ((number, line[2:]) for number, line in enumerate(lines) if line.startswith("$ "))
    elif lines and simple(lines[0].removesuffix("\\")):
        number = 0
        while number < len(lines):
            begins, whole = number, lines[number]
            while whole.endswith("\\"):
                number += 1
                whole = whole[:-1] + lines[number]
            yield begins, whole
            number += 1


def simple(line: str) -> list[tuple[str, ...]]:
    """Commands of a line: those between && and pipes, in $(...), and each turn of a loop; without redirections."""
    if (loop := _LOOP.fullmatch(line)) is not None:
        name, values, body = loop.groups()
        turns = (re.sub(rf"\$({name}\b|{{{name}}})", value, body) for value in values.split())
        return [words for turn in turns for words in simple(turn)]
    found = [words for nested in _NESTED.findall(line) for words in simple(nested)]
    lexer = shlex.shlex(_NESTED.sub("NESTED", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        parts = list(lexer)
    except ValueError:  # It is text, with an apostrophe.
        return found
    words: list[str] = []
    for part in [*parts, ";"]:
        if part in _BETWEEN:
            if (command := _bare(words)) and (command[0] in PROGRAMS or command[0].startswith("testbed/")):
                found.append(command)
            words = []
        else:
            words.append(part)
    return found


def _bare(words: list[str]) -> tuple[str, ...]:
    while words and (words[0] == "sudo" or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    if ">" in words:
        words = words[: words.index(">")]
    filled = (_filled(word) for word in words)
    return tuple(word.removeprefix(".venv/bin/") for word in filled)


def _filled(word: str) -> str:
    for name, value in _PLACEHOLDERS.items():
        word = word.replace(name, value)
    return word
