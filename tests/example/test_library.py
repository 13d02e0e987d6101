"""The example project at work: folders go in, jobs are done, folders come out."""

import os
import time

import pytest

from tests.example.library import Library
from tests.processes import wait_until

pytestmark = pytest.mark.processes

BREAD = "Bread is baked from flour, water and salt. The dough has to rest before it is baked."
SAILS = "A sail catches the wind and moves the boat. The sheet is the rope that trims a sail."


def family(uri: str, status: str, count: int = 3) -> dict[tuple[str, str], int]:
    return {(uri, status): count}


def test_each_document_gets_its_family_of_jobs_and_they_are_done(library: Library) -> None:
    library.write("bread.txt", BREAD)
    assert "1 new or changed" in library.add()
    assert library.jobs() == family("library://books/bread.txt", "ready")
    library.work()
    assert library.jobs() == family("library://books/bread.txt", "done")
    document = library.ask(
        "[[d.abstract, d.overview, len(d.vector)] for d in Document.objects.all()][0]"
    )
    assert document == [BREAD, BREAD, 4096]


def test_a_second_write_of_unchanged_files_adds_nothing(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.write("sails/sails.txt", SAILS)
    library.add()
    assert "0 new or changed, 2 unchanged" in library.add()
    library.work()
    assert "0 new or changed, 2 unchanged" in library.add()
    assert sum(library.jobs().values()) == 6


def test_a_changed_file_gets_a_new_family(library: Library) -> None:
    library.write("text.txt", BREAD)
    library.add()
    library.work()
    library.write("text.txt", SAILS)
    assert "1 new or changed" in library.add()
    uri = "library://books/text.txt"
    assert library.jobs() == family(uri, "done") | family(uri, "ready")
    library.work()
    assert library.jobs() == family(uri, "done", 6)
    summaries = library.ask(
        "[[s.text, s.revision] for s in Document.objects.get().summaries.order_by('length')]"
    )
    assert summaries == [[SAILS, 2], [SAILS, 2]]


def test_a_file_that_changed_since_it_was_added_is_written_anew(library: Library) -> None:
    library.write("text.txt", BREAD)
    library.add()
    library.write("text.txt", SAILS)
    library.work()
    assert library.jobs() == family("library://books/text.txt", "done", 6)
    assert library.ask("Document.objects.get().abstract") == SAILS


def test_a_removed_subtree_takes_its_jobs_along(library: Library) -> None:
    for name in ["guide/a.txt", "guide/deep/b.txt", "guide.txt", "Guide/a.txt", "guide_/a.txt"]:
        library.write(name, BREAD)
    library.add()
    output = library.manage("remove", "library://books/guide")
    assert "2 documents removed" in output
    left = [
        "library://books/Guide/a.txt",
        "library://books/guide.txt",
        "library://books/guide_/a.txt",
    ]
    assert library.documents() == left
    assert library.jobs() == {(uri, "ready"): 3 for uri in left}


def test_a_removed_folder_leaves_nothing_behind(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.add()
    library.manage("remove", "library://books")
    assert library.ask(
        "[Document.objects.count(), Folder.objects.count(), Job.objects.count()]"
    ) == [0, 0, 0]


def test_what_was_removed_by_hand_stays_out_until_it_is_added_again(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.write("sails/sails.txt", SAILS)
    library.add(LIBRARY_RESCAN_SECONDS="1")
    library.manage("remove", "library://books/sails")
    rescan(library)
    assert library.documents() == ["library://books/bread.txt"]
    library.add()
    assert library.documents() == ["library://books/bread.txt", "library://books/sails/sails.txt"]


def test_removing_what_is_not_there_is_refused(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.add()
    for uri in [
        "",
        "books",
        "library://",
        "library://nobody",
        "library://books/no",
        "library://Books",
    ]:
        assert "CommandError" in library.manage("remove", uri, exit_code=1)
    assert library.documents() == ["library://books/bread.txt"]


def test_a_folder_that_cannot_be_added_is_refused(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.add()
    assert "is not a folder" in library.manage("add", str(library.folder / "no"), exit_code=1)
    assert "--name" in library.manage("add", str(library.folder), "--name", "a/b", exit_code=1)
    other = library.folder.parent / "elsewhere" / "books"
    other.mkdir(parents=True)
    assert "choose another name" in library.manage("add", str(other), exit_code=1)


def test_a_file_that_cannot_be_decoded_fails_with_a_reason(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.write("latin1.txt", "Brötchen".encode("latin-1"))
    library.add()
    library.work()
    assert library.jobs() == {
        ("library://books/bread.txt", "done"): 3,
        ("library://books/latin1.txt", "failed"): 3,
    }
    assert library.ask("Job.objects.detail().reasons") == {"undecodable_text": 3}
    assert library.ask("[job.attempts for job in Job.objects.detail().failed]") == [1, 1, 1]


def test_a_file_that_is_mended_is_read_again(library: Library) -> None:
    library.write("text.txt", b"\xff\xfe")
    library.add()
    library.work()
    library.write("text.txt", BREAD)
    library.add()
    library.work()
    assert library.ask("Document.objects.get().abstract") == BREAD


def test_a_file_that_is_too_large_fails_with_a_reason(library: Library) -> None:
    library.write("long.txt", b"word " * 1_000_000)
    library.add()
    library.work()
    assert library.ask("Job.objects.detail().reasons") == {"file_too_large": 3}


def test_a_file_that_is_gone_is_tried_again_with_a_reason(library: Library) -> None:
    path = library.write("bread.txt", BREAD)
    library.add()
    path.unlink()
    library.work()
    assert library.family_states() == [["ready", "file_missing", 1]] * 3


def test_a_half_written_file_is_put_off_until_it_is_whole(library: Library) -> None:
    uri = "library://books/text.txt"
    library.write("text.txt", BREAD[:20], age=0)
    library.add()
    library.work(LIBRARY_QUIET_SECONDS="3600")
    assert library.family_states() == [["ready", "", 0]] * 3
    library.write("text.txt", BREAD)

    def all_done() -> bool:
        library.work()
        return library.jobs() == family(uri, "done", 6)

    wait_until(all_done, timeout=30)
    assert library.ask("Document.objects.get().abstract") == BREAD


def test_the_rescan_finds_what_changed_on_disk(library: Library) -> None:
    library.write("kept.txt", BREAD)
    library.write("changed.txt", BREAD)
    library.write("gone.txt", BREAD)
    library.add(LIBRARY_RESCAN_SECONDS="1")
    library.work()
    library.write("changed.txt", SAILS)
    library.write("new.txt", SAILS)
    (library.folder / "gone.txt").unlink()
    rescan(library)
    library.work()
    assert library.jobs() == {
        ("library://books/kept.txt", "done"): 3,
        ("library://books/changed.txt", "done"): 6,
        ("library://books/new.txt", "done"): 3,
    }


def test_a_folder_that_is_not_there_just_now_keeps_its_documents(library: Library) -> None:
    library.write("bread.txt", BREAD)
    library.add(LIBRARY_RESCAN_SECONDS="1")
    library.folder.rename(library.folder.with_name("unmounted"))
    rescan(library)
    assert library.documents() == ["library://books/bread.txt"]
    assert library.ask("Job.objects.get(kind=catalogue.RESCAN).last_error") == "folder_missing"


def test_file_names_of_every_kind_are_kept_apart(library: Library) -> None:
    names = ["README.txt", "readme.txt", "two words%.txt", "größe.txt", os.fsdecode(b"\xff.txt")]
    for name in names:
        library.write(name, BREAD)
    library.add()
    library.work()
    uris = library.documents()
    assert len(uris) == len(names)
    assert library.jobs() == {(uri, "done"): 3 for uri in uris}


def test_a_worker_process_indexes_while_documents_come_in(library: Library) -> None:
    worker = library.start("runjobs")
    library.write("bread.txt", BREAD)
    library.add()
    library.write("sails.txt", SAILS)
    library.add()
    wait_until(lambda: library.jobs() and {s for _, s in library.jobs()} == {"done"}, timeout=30)
    worker.terminate()
    assert worker.wait() == 0
    assert sum(library.jobs().values()) == 6


def rescan(library: Library) -> None:
    """Let the schedule of the folder come due, and a worker run it."""
    time.sleep(1.1)
    library.work()
