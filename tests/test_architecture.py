"""The layers of the package: imports point down, and each floor keeps to its own work."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "django_sqlqueue"

FLOORS = (
    # words: no table is needed to say them
    {
        "exceptions", "durations", "lifecycle", "reasons", "policy", "payloads", "conf", "kinds",
        "rhythms", "rhythm_words", "runner_names", "occurrences", "newjob", "signals",
    },
    # where databases differ
    {"engines"},
    # every write to a job row
    {"fields", "indexes", "constraints", "managers", "models"},
    # what happens to one job
    {"handlers", "discovery", "isolation", "execution", "schedules", "explanation"},
    # processes and time
    {"worker"},
    # arguments, pages, adapters
    {"testing", "checks", "apps", "admin", "backend", "management", ""},
)  # fmt: skip
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

CYCLES = {
    ("durations", "exceptions"): "a wrong duration is an InvalidJob, and Defer checks its delay",
}
"""Modules that need each other, each pair with its reason."""

LONG_FILES: dict[str, str] = {}
"""Files of more than 300 lines, each with its reason."""

WRITES = {
    "save", "asave", "create", "acreate", "get_or_create", "update_or_create", "bulk_create",
    "bulk_update", "delete", "_raw_delete", "raw", "cursor", "execute", "executemany",
    "adelete",
}  # fmt: skip
WRITES_BY_KEYWORD = {"update", "aupdate"}
"""With positional arguments they are those of dictionaries and sets."""
NO_JOB_ROWS: dict[str, str] = {
    "admin/log.py": "Django's log of who did what in the admin",
    "models/guarded.py": "passes a save on that it has found to be harmless",
    "backend/moving.py": "deletes the rows of django-tasks-db that have become jobs",
}
"""Files elsewhere that call one of WRITES all the same, each with its reason."""

ENGINE_WORDS = re.compile(r"postgres|psycopg|sqlite|maria_?db|mysql|\bvendor\b", re.IGNORECASE)


class Source:
    """One file of the package, read as text and as a tree."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(PACKAGE).as_posix()
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.is_package = path.name == "__init__.py"
        parts = self.name.removesuffix(".py").split("/")
        self.module = ".".join(parts[:-1] if self.is_package else parts)

    @property
    def room(self) -> str:
        return self.module.partition(".")[0]

    @property
    def imports(self) -> set[str]:
        """The modules of the package that it imports, at its top or in a function."""
        found = set()
        for node in at_run_time(self.tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node.level) if node.level else ""
                source = ".".join(part for part in (base, node.module) if part)
                names = [f"{source}.{alias.name}" for alias in node.names]
            else:
                continue
            found |= {target for name in names if (target := known_module(name)) is not None}
        return found - {self.module}

    def _base(self, level: int) -> str:
        parts = ["django_sqlqueue", *(part for part in self.module.split(".") if part)]
        return ".".join(parts[: len(parts) - level + self.is_package])


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below, save for those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_run_time(child)


SOURCES = [
    Source(path)
    for path in sorted(PACKAGE.rglob("*.py"))
    if "migrations" not in path.relative_to(PACKAGE).parts
]
MODULES = {source.module for source in SOURCES}


def known_module(dotted: str) -> str | None:
    """Return the longest beginning of a dotted name that is a module of the package."""
    top, _, rest = dotted.partition(".")
    if top != "django_sqlqueue":
        return None
    while rest not in MODULES:
        rest = rest.rpartition(".")[0]
    return rest


def test_imports_are_read_as_python_reads_them():
    imports = {source.module: source.imports for source in SOURCES}
    assert {"occurrences", "policy", "conf", "engines", "engines.instants"} <= imports["execution"]
    assert {"managers.claiming", "managers.reading"} <= imports["managers"]
    assert "newjob" in imports["managers.enqueueing"]
    assert "models" in imports["handlers"], "also inside a function"
    assert "models" not in imports["execution"], "not for the type checker only"


def test_every_module_stands_on_a_floor():
    assert not {source.room for source in SOURCES} - set(FLOOR_OF)


def test_imports_point_down():
    upward = {
        source.name: targets
        for source in SOURCES
        if (targets := {t for t in source.imports if floor(t) > floor(source.module)})
    }
    assert not upward


def floor(module: str) -> int:
    return FLOOR_OF[module.partition(".")[0]]


def test_no_two_modules_need_each_other():
    needs = {source.module: source.imports for source in SOURCES}
    mutual = {
        (one, other)
        for one, targets in needs.items()
        for other in targets
        if one < other and one in needs[other]
    }
    assert mutual == set(CYCLES)


def test_the_public_names_load_without_settings_and_models():
    code = (
        "import sys, django_sqlqueue; "
        "print(*(name for name in sys.modules if name.startswith('django_sqlqueue.models')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout.strip() == ""


def test_engines_are_named_only_on_their_floor():
    named = {
        source.name: words
        for source in SOURCES
        if source.room != "engines" and (words := ENGINE_WORDS.findall(source.text))
    }
    assert not named


def test_job_rows_are_written_only_by_managers_and_engines():
    writing = {
        source.name: calls
        for source in SOURCES
        if source.room not in ("managers", "engines") and (calls := writes_of(source))
    }
    assert set(writing) == set(NO_JOB_ROWS), writing


def writes_of(source: Source) -> set[str]:
    return {
        f"{ast.unparse(node.func)} (line {node.lineno})"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in WRITES or (node.func.attr in WRITES_BY_KEYWORD and not node.args)
    }


def test_no_file_is_long_without_a_reason():
    long = {source.name for source in SOURCES if len(source.text.splitlines()) > 300}
    assert long == set(LONG_FILES)


def test_every_module_says_first_what_it_is_for():
    assert not [s.name for s in SOURCES if s.text.strip() and not ast.get_docstring(s.tree)]


def test_nothing_is_printed():
    printing = [
        source.name
        for source in SOURCES
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type == tokenize.NAME and token.string in ("print", "breakpoint")
    ]
    assert not printing
