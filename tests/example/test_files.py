"""Files on disk: which belong in the library, and when they may be read."""

import os
import time
from pathlib import Path

import pytest

from example_project.library import files


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"text")


def age(path: Path, seconds: float) -> None:
    written = time.time() - seconds
    os.utime(path, (written, written))


def test_text_files_are_found_in_order_without_hidden_and_skipped_folders(tmp_path: Path) -> None:
    make(tmp_path, "b.TXT", "a/x.py", "a/image.png", ".git/config.ini", "__pycache__/x.py")
    make(tmp_path, "deep/tests/test.py", "tests.md")
    found = [
        path.relative_to(tmp_path).as_posix() for path in files.text_files(tmp_path, ["tests"])
    ]
    assert found == ["b.TXT", "tests.md", "a/x.py"]


def test_what_is_no_regular_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "broken.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.txt").mkdir()
    assert list(files.text_files(tmp_path)) == []


def test_a_file_at_rest_is_read(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    age(tmp_path / "a.txt", 10)
    assert files.read_at_rest(tmp_path / "a.txt", 2, 100) == b"text"
    assert files.read_at_rest(tmp_path / "a.txt", 2, 2) == b"tex"


def test_a_file_that_changed_a_moment_ago_is_still_being_written(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    with pytest.raises(files.StillBeingWritten):
        files.read_at_rest(tmp_path / "a.txt", 60, 100)


def test_a_file_from_the_future_is_at_rest(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    age(tmp_path / "a.txt", -3600)
    assert files.read_at_rest(tmp_path / "a.txt", 2, 100) == b"text"


def test_the_hash_read_in_pieces_is_the_hash_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 300_000)
    expected = files.content_hash(b"x" * 300_000), 300_000
    assert files.hash_and_size(tmp_path / "a.txt") == expected
