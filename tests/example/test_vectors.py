"""Hashed term vectors: what is near what."""

import math

import pytest

from example_project.library import vectors


def test_identifiers_are_split_and_common_words_left_out() -> None:
    assert list(vectors.terms("def parseJSONFile(self, raw_bytes): the HTTPErrors")) == [
        "parse",
        "jsonfile",
        "raw",
        "byte",
        "httperror",
    ]


def test_words_of_any_language_are_terms() -> None:
    assert list(vectors.terms("Größe, 大きさ, размер")) == ["größe", "大きさ", "размер"]


def test_a_vector_has_the_length_1() -> None:
    vector = vectors.embed("a queue keeps jobs until a worker takes them")
    assert len(vector) == vectors.DIMENSIONS
    assert math.hypot(*vector) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "the of and", "1 2 3 !?", "\x00\ud800"])
def test_a_text_without_words_has_a_vector_of_zeros(text: str) -> None:
    vector = vectors.embed(text)
    assert not any(vector)
    assert vectors.cosine(vector, vectors.embed("anything")) == 0


def test_a_text_is_nearest_to_itself() -> None:
    text = "compress and decompress archives"
    vector = vectors.embed(text)
    assert vectors.cosine(vector, vectors.embed(text)) == pytest.approx(1)
    assert vectors.cosine(vector, vectors.embed("archives of letters")) < 0.9


def test_the_title_counts() -> None:
    query = vectors.embed("calendar")
    plain = vectors.embed("months and weeks in several layouts")
    titled = vectors.embed("months and weeks in several layouts", title="calendar.py")
    assert vectors.cosine(query, titled) > vectors.cosine(query, plain)


def test_ranking_puts_the_nearest_first_and_leaves_strangers_out() -> None:
    documents = {
        "gzip": vectors.embed("compress and decompress a file with gzip"),
        "shelf": vectors.embed("a file of shelves and books, a file of letters"),
        "sea": vectors.embed("waves wind sail"),
    }
    ranked = vectors.rank(vectors.embed("compress a file"), documents.items())
    assert [key for _, key in ranked] == ["gzip", "shelf"]


def test_rare_words_count_for_more_than_those_of_every_document() -> None:
    documents = {
        "files": vectors.embed("file file file file"),
        "gzip": vectors.embed("gzip file header footer trailer member"),
        "lines": vectors.embed("file line reader"),
    }
    ranked = vectors.rank(vectors.embed("gzip file"), documents.items())
    assert ranked[0][1] == "gzip"


def test_ranking_by_nothing_or_among_nothing_finds_nothing() -> None:
    assert vectors.rank(vectors.embed(""), [("a", vectors.embed("word"))]) == []
    assert vectors.rank(vectors.embed("word"), []) == []


def test_packing_keeps_every_value_in_little_endian_order() -> None:
    vector = vectors.embed("some words to keep")
    packed = vectors.pack(vector)
    assert len(packed) == 4 * vectors.DIMENSIONS
    assert vectors.unpack(packed) == vector
    assert vectors.unpack(memoryview(packed)) == vector
    assert vectors.pack(vectors.unpack(b"\x00\x00\x80\x3f")) == b"\x00\x00\x80\x3f"
    assert vectors.unpack(b"\x00\x00\x80\x3f")[0] == 1.0
