"""Extractive summaries: which sentences stay."""

import pytest

from example_project.library import summaries

PROSE = """
About queues

A queue keeps jobs in a table until a worker takes them. The weather was fine that day in May.
Each worker claims a few jobs at a time and runs them. A claim is the right to run a job, and it
ends with a lease. Somebody had painted the garden gate in green. When a worker dies, the lease of
its jobs ends and another worker claims them again.
"""

SOURCE = '''
#!/usr/bin/env python
# Copyright 1999 by somebody. All rights reserved.
"""Read and write archives of letters.

An archive is a file that holds many letters, each with a header.
"""

import sys

TEMPLATE = """This text is data and no docstring of the archive at all."""
NOT_A_COMMENT = "# this hash sign begins no comment, it is data of the archive."
QUOTE = '"""'


def open_archive(path):
    """Open an archive for reading its letters.

    >>> open_archive("letters").first().
    """
    # An archive that is damaged at its end is
    # read as far as its letters are whole.
    return path  # The caller closes the archive after the last letter.
'''


def test_a_summary_has_so_many_sentences_in_the_order_of_the_text() -> None:
    summary = summaries.summarize(PROSE, 2)
    sentences = [sentence.text for sentence in summaries.split_sentences(summary)]
    assert len(sentences) == 2
    assert PROSE.replace("\n", " ").index(sentences[0]) < PROSE.replace("\n", " ").index(
        sentences[1]
    )


def test_the_sentences_about_the_subject_stay() -> None:
    summary = summaries.summarize(PROSE, 3)
    assert "A queue keeps jobs" in summary
    assert "weather" not in summary
    assert "gate" not in summary


def test_headings_are_no_sentences() -> None:
    assert "About queues" not in summaries.summarize(PROSE, 6)


def test_of_python_only_docstrings_and_comments_are_read() -> None:
    prose = summaries.prose_of_python(SOURCE)
    assert "Read and write archives of letters." in prose
    assert "Open an archive for reading its letters." in prose
    assert "damaged at its end is\nread as far" in prose
    assert "The caller closes the archive" in prose
    assert "is data" not in prose
    assert "import" not in prose


def test_code_and_notices_are_not_in_the_summary_of_a_source() -> None:
    overview = summaries.summarize(SOURCE, 6, is_python=True)
    assert overview.startswith("Read and write archives of letters.")
    assert (
        "An archive that is damaged at its end is read as far as its letters are whole." in overview
    )
    assert ">>>" not in overview
    assert "Copyright" not in overview


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("\n\n  \n", ""),
        ("12 34\nkey = value\n", "key = value"),
        ("a\x00b\x1bc", "a b c"),
        ("x" * 1000, "x" * summaries.MAX_FALLBACK_CHARACTERS),
    ],
)
def test_a_text_without_a_sentence_gives_its_first_line(text: str, summary: str) -> None:
    assert summaries.summarize(text, 2) == summary


def test_a_source_without_prose_gives_its_first_line_with_a_letter() -> None:
    assert summaries.summarize("\nimport sys\n", 2, is_python=True) == "import sys"


def test_control_characters_do_not_get_into_a_summary() -> None:
    summary = summaries.summarize("This sentence has a\x00 strange character in it.", 1)
    assert summary == "This sentence has a strange character in it."


def test_a_sentence_that_comes_twice_is_taken_once() -> None:
    sentence = "The same words are written here again."
    assert summaries.summarize(f"{sentence}\n\n{sentence}", 4) == sentence


def test_an_unfinished_source_is_read_as_far_as_it_goes() -> None:
    source = '# A comment with a few words stands here.\nx = """never closed\n'
    assert (
        summaries.summarize(source, 1, is_python=True) == "A comment with a few words stands here."
    )
