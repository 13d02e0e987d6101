"""Texts as vectors: hashed terms, weighted by their logarithmic frequency, of length 1.

Two texts are near each other when they use the same words. No model and no vocabulary is needed:
a hash chooses the dimension of a term, so any text of any language has a vector.
"""

import math
import re
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import mul
from typing import TypeVar

Key = TypeVar("Key")

DIMENSIONS = 1024
# Terms of a long text beyond the most frequent ones fill every dimension with noise.
TERMS_PER_TEXT = 64
# A word in a file's name counts as if it stood this often in its text.
TITLE_WEIGHT = 6

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]{2,}")
# Words that say nothing about a text, in English and in Python.
_COMMON_WORDS = """
    an and any are as assert at async await be been break but by can class continue could def del do
    does each elif else except false finally for from get global has have how if import in into is
    it its lambda may must no nonlocal none not of on one only or other pass py raise return returns
    self set should so than that the their then there these they this to true try type use used
    using value was we what when where which while will with would yield you your
    args cls init int isinstance kwargs len name obj str
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def terms(text: str) -> Iterator[str]:
    """Yield the words of a text that carry meaning, small and singular; identifiers are split."""
    for word in _WORD.findall(_HUMP.sub(" ", text)):
        term = _singular(word.lower())
        if term not in _COMMON:
            yield term


def embed(text: str, title: str = "") -> array:
    """Return the vector of a text, zeros if it has no words; words of its title weigh more."""
    counts = Counter(terms(text))
    for term in terms(title):
        counts[term] += TITLE_WEIGHT
    vector = [0.0] * DIMENSIONS
    for term, count in counts.most_common(TERMS_PER_TEXT):
        dimension, sign = _place(term)
        vector[dimension] += sign * (1 + math.log(count))
    return _of_length_one(vector)


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how near two vectors of length 1 are: 1 the same words, 0 none in common."""
    return sum(map(mul, first, second))


def rank(query: array, documents: Iterable[tuple[Key, array]]) -> list[tuple[float, Key]]:
    """Return (cosine, key) of each document that has something of the query, the nearest first.

    A dimension of the query counts for more the fewer documents have it: "compress a file" is about
    compressing, since half of all documents have files.
    """
    used = [dimension for dimension, value in enumerate(query) if value]
    known = [(key, [vector[dimension] for dimension in used]) for key, vector in documents]
    holders = [sum(1 for _, values in known if values[column]) for column in range(len(used))]
    weighted = _of_length_one(
        [
            query[dimension] * math.log(1 + len(known) / (1 + count))
            for dimension, count in zip(used, holders, strict=True)
        ]
    )
    scores = ((cosine(weighted, values), key) for key, values in known if any(values))
    return sorted(scores, key=lambda scored: -scored[0])


def pack(vector: array) -> bytes:
    """Return a vector as bytes for a column, little-endian on every machine."""
    return _little_endian(vector).tobytes()


def unpack(data: bytes | memoryview) -> array:
    """Return the vector that these bytes hold."""
    vector = array("f")
    vector.frombytes(bytes(data))
    return _little_endian(vector)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _place(term: str) -> tuple[int, int]:
    """Return a term's dimension, and a sign: terms that share a dimension cancel out on average."""
    checksum = zlib.crc32(term.encode("utf-8", "replace"))
    return checksum % DIMENSIONS, 1 if checksum & 0x80000000 else -1


def _of_length_one(vector: list[float]) -> array:
    length = math.hypot(*vector) or 1.0
    return array("f", (value / length for value in vector))


def _little_endian(vector: array) -> array:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector
