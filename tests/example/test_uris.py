"""Uris: one for each file, and the way back."""

import os
from pathlib import Path, PurePosixPath

import pytest

from example_project.library import uris

ROOT = Path("shelf")


@pytest.mark.parametrize(
    ("relative", "uri"),
    [
        ("guide/intro.md", "library://books/guide/intro.md"),
        ("two words.txt", "library://books/two%20words.txt"),
        ("100%.txt", "library://books/100%25.txt"),
        ("größe?.txt", "library://books/gr%C3%B6%C3%9Fe%3F.txt"),
        (os.fsdecode(b"\xff.txt"), "library://books/%FF.txt"),
    ],
)
def test_a_file_has_one_uri_that_leads_back_to_it(relative: str, uri: str) -> None:
    assert uris.uri_of("books", PurePosixPath(relative)) == uri
    assert uris.path_of(ROOT, uri) == ROOT / relative


@pytest.mark.parametrize(
    "uri", ["", "books/a.txt", "http://books/a.txt", "library://", "library:///a"]
)
def test_what_is_no_uri_of_the_library_is_refused(uri: str) -> None:
    with pytest.raises(uris.InvalidUri):
        uris.split(uri)


@pytest.mark.parametrize(
    ("uri", "within"),
    [
        ("library://books/guide", True),
        ("library://books/guide/a.txt", True),
        ("library://books/guide.txt", False),
        ("library://books/guide2/a.txt", False),
        ("library://books/Guide/a.txt", False),
        ("library://books", False),
    ],
)
def test_a_subtree_ends_at_its_slash(uri: str, within: bool) -> None:
    assert uris.is_within(uri, "library://books/guide") is within


def test_uris_that_differ_in_case_only_have_different_keys() -> None:
    assert uris.digest_of("library://books/README.md") != uris.digest_of(
        "library://books/readme.md"
    )
