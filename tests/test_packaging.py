"""What the wheel holds."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    package, info = sorted(tops)
    assert package == "django_sqlqueue"
    assert info.endswith(".dist-info")


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "django_sqlqueue").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "django_sqlqueue/py.typed" in files
    assert files <= set(wheel.namelist())


def test_the_metadata_names_the_licence_and_the_needs(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert required == ["django>=5.2"]
    assert set(metadata.get_all("Provides-Extra")) == {"cron", "mysql", "postgres", "tasks"}
