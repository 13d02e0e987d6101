"""Names of documents: ``library://folder/path/in/it``, and the way back to the path."""

import hashlib
import os
from pathlib import Path, PurePath
from urllib.parse import quote_from_bytes, unquote_to_bytes

SCHEME = "library://"
MAX_URI_LENGTH = 1000

# Readable characters stay; blanks, %, and bytes that are not ASCII are percent-encoded, so that any
# file name the system allows has a uri, and only one.
_PLAIN = "/!$&'()*+,;=:@"


class InvalidUri(ValueError):
    """This is not the uri of something in the library."""


def folder_uri(name: str) -> str:
    """Return the uri of the folder with this name."""
    return SCHEME + name


def uri_of(name: str, relative: PurePath) -> str:
    """Return the uri of the file at this path, relative to the folder with this name."""
    return f"{SCHEME}{name}/{quote_from_bytes(os.fsencode(relative.as_posix()), safe=_PLAIN)}"


def path_of(root: Path, uri: str) -> Path:
    """Return the path of a document's file under its folder's root."""
    _, relative = split(uri)
    return root / os.fsdecode(unquote_to_bytes(relative))


def split(uri: str) -> tuple[str, str]:
    """Return the folder's name and the still encoded path in it, "" for the folder itself."""
    if not uri.startswith(SCHEME):
        raise InvalidUri(f"A uri of the library begins with {SCHEME!r}.")
    name, _, relative = uri.removeprefix(SCHEME).rstrip("/").partition("/")
    if not name:
        raise InvalidUri("The uri names no folder.")
    return name, relative


def is_within(uri: str, ancestor: str) -> bool:
    """Return whether a uri is this ancestor or lies below it."""
    return uri == ancestor or uri.startswith(ancestor + "/")


def digest_of(uri: str) -> str:
    """Return a short fixed-length key for a uri.

    Text columns compare by a collation that may ignore case (MariaDB's default does), and README.md
    and readme.md are two files; a digest in hexadecimal is the same on every engine.
    """
    return hashlib.blake2b(uri.encode(), digest_size=16).hexdigest()
