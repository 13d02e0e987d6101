"""The example project's pages: search, document, queue and admin."""

import re

import pytest

from tests.example.library import Library

pytestmark = pytest.mark.processes

TEXTS = {
    "bread.txt": "Bread is baked from flour and water. The dough rests before it is baked.",
    "sails.txt": "A sail catches the wind and moves the boat. A rope trims the sail.",
    "letters.py": '"""Read and write letters, each with an address and a stamp."""\n\nimport sys\n',
}


@pytest.fixture
def indexed(library: Library) -> Library:
    for name, text in TEXTS.items():
        library.write(name, text)
    library.write("latin1.txt", "Brötchen".encode("latin-1"))
    library.add()
    library.work()
    return library


def titles(html: str) -> list[str]:
    return re.findall(r'class="title"[^>]*>([^<]*)<', html)


def test_the_pages_show_what_the_jobs_made(indexed: Library) -> None:
    searches = ["a boat in the wind", "baking dough", "letter", "xylophone", "?!", "%_'\"<b>"]
    pages = indexed.ask(f"[get('/', q=words) for words in {searches!r}]")
    assert [page["status"] for page in pages] == [200] * len(searches)
    assert [titles(page["html"])[:1] for page in pages] == [
        ["sails.txt"],
        ["bread.txt"],
        ["letters.py"],
        [],
        [],
        [],
    ]
    assert "Read and write letters" in pages[2]["html"]
    assert "<b>" not in pages[5]["html"]

    front = indexed.ask("get('/')")
    assert len(titles(front["html"])) == 4
    assert "4 documents" in front["html"]

    latin1 = indexed.ask("Document.objects.get(uri__endswith='latin1.txt').pk")
    document = indexed.ask(f"get('/documents/{latin1}/')")
    assert document["status"] == 200
    assert document["html"].count("undecodable_text") == 3

    queue = indexed.ask("get('/queue/')")
    assert queue["html"].count("undecodable_text") == 4
    assert "http-equiv" not in queue["html"]


def test_the_admin_shows_documents_and_jobs(indexed: Library) -> None:
    paths = ["/admin/", "/admin/library/folder/", "/admin/library/document/?q=bread"]
    of_jobs = "/admin/django_sqlqueue/job/"
    pages = indexed.ask(f"[get_as_admin(path) for path in {[*paths, of_jobs]!r}]")
    assert [page["status"] for page in pages] == [200] * 4
    assert "library://books/bread.txt" in pages[2]["html"]
    assert "library.embed" in pages[3]["html"]
    bread = indexed.ask("Document.objects.get(uri__endswith='bread.txt').pk")
    page = indexed.ask(f"get_as_admin('/admin/library/document/{bread}/change/')")
    assert page["status"] == 200
    assert "Bread is baked" in page["html"]


def test_bad_input_is_answered(indexed: Library) -> None:
    queries = [
        {"q": "x" * 201},
        {"q": "a\x00b"},
        {"page": "none"},
        {"page": "-1"},
        {"page": "9" * 30},
    ]
    answers = indexed.ask(f"[get('/', **query)['status'] for query in {queries!r}]")
    assert answers == [400, 400, 200, 200, 200]
    paths = ["/documents/0/", f"/documents/{'9' * 30}/", "/documents/x/", "/nowhere/"]
    assert indexed.ask(f"[get(path)['status'] for path in {paths!r}]") == [404] * len(paths)


def test_an_empty_library_says_how_to_fill_it(library: Library) -> None:
    assert "manage.py add FOLDER" in library.ask("get('/')")["html"]
    assert "Nothing failed" in library.ask("get('/queue/')")["html"]
