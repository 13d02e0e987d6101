"""Extractive summaries: the sentences of a text that say most of what it is about.

Of Python sources only docstrings and comments are read; code is not prose.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass

from .vectors import terms

ABSTRACT_SENTENCES = 2
OVERVIEW_SENTENCES = 6
# What matters stands early, and scoring a whole encyclopaedia would keep a worker busy for nothing.
MAX_CHARACTERS = 200_000
MAX_FALLBACK_CHARACTERS = 240

# Strings that are no docstrings are matched too, so that a quote or # inside one begins nothing.
_STRING_OR_COMMENT = re.compile(
    r"""
    (?P<indent> ^[ \t]* )? [rRuU]?
    (?P<quote> \"{3} | '{3} ) (?P<long> (?: \\. | [^\\] )*? ) (?P=quote)
    | " (?: \\. | [^"\\\n] )* " | ' (?: \\. | [^'\\\n] )* '
    | \# (?P<comment> [^\n]* )
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`]?[^\W\d_a-z])")
_NOT_PROSE = re.compile(
    r">>>|\.\.\. |copyright|licen[sc]e|all rights reserved|coding[:=]|[{}|\\<>=]{2,}|={3,}|-{4,}",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence and where it stands in its text, from 0."""

    position: int
    text: str


def summarize(text: str, sentences: int, *, is_python: bool = False) -> str:
    """Return the text's most telling sentences, in the text's order.

    A text without a sentence gives its first line; an empty one gives "".
    """
    text = text[:MAX_CHARACTERS]
    prose = prose_of_python(text) if is_python else text
    found = split_sentences(prose)
    if not found:
        return first_line(prose) or first_line(text)
    scores = score(found)
    best = sorted(found, key=lambda sentence: -scores[sentence.position])[:sentences]
    return " ".join(
        sentence.text for sentence in sorted(best, key=lambda sentence: sentence.position)
    )


def prose_of_python(source: str) -> str:
    """Return the docstrings and comments of a Python source, each block a paragraph of its own."""
    pieces: list[str] = []
    previous_end = 0
    for match in _STRING_OR_COMMENT.finditer(source):
        if match["comment"] is not None:
            continues = source[previous_end : match.start()].strip(" \t") == "\n"
            pieces.append(("\n" if continues else "\n\n") + match["comment"].lstrip("#!:- "))
        elif match["long"] is not None and match["indent"] is not None:
            pieces.append("\n\n" + match["long"])
        previous_end = match.end()
    return "".join(pieces)


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a text, without headings, code and notices."""
    candidates = (
        " ".join(_CONTROL.sub(" ", candidate).split())
        for paragraph in _PARAGRAPH.split(text)
        for candidate in _SENTENCE_END.split(paragraph)
    )
    unique = dict.fromkeys(candidate for candidate in candidates if is_prose(candidate))
    return [Sentence(position, candidate) for position, candidate in enumerate(unique)]


def is_prose(candidate: str) -> bool:
    """Return whether this reads as a sentence: 4 to 50 words, mostly letters, no code."""
    words = candidate.split()
    if not 4 <= len(words) <= 50 or _NOT_PROSE.search(candidate):
        return False
    letters = sum(character.isalpha() or character == " " for character in candidate)
    return letters >= 0.8 * len(candidate) and candidate[-1] in ".!?)"


def score(sentences: list[Sentence]) -> dict[int, float]:
    """Return a score for each position: how telling its words are, more for early sentences."""
    words = {sentence.position: set(terms(sentence.text)) for sentence in sentences}
    spread = Counter(term for sentence_terms in words.values() for term in sentence_terms)
    return {
        position: _weight(sentence_terms, spread) * (1 + 2 / (1 + position))
        for position, sentence_terms in words.items()
    }


def first_line(text: str) -> str:
    """Return the first line with a letter in it, shortened, or ""."""
    for line in text.splitlines():
        if any(character.isalpha() for character in line):
            return _CONTROL.sub(" ", line).strip()[:MAX_FALLBACK_CHARACTERS]
    return ""


def _weight(sentence_terms: set[str], spread: Counter[str]) -> float:
    """Return how much of the text's subject a sentence names, whatever its length."""
    total = sum(math.log1p(spread[term]) for term in sentence_terms)
    return total / math.sqrt(len(sentence_terms) + 4)
