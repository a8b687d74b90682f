"""The pass over a page's tree in C: the same answers as `combine.page.html` in a third of the time.

It is an accelerator and nothing else: it is built where there is a C compiler when Combine is installed (`build.py`),
and where it is not there, was made of another source than lies beside it, or does not fit the lexbor library that
selectolax has loaded, pages are read in Python.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import selectolax.lexbor

LIBRARY = Path(__file__).parent / "reader.so"
SOURCE = LIBRARY.with_suffix(".c")

#: What reader.c asks of lexbor, in the order of its `struct lexbor`; all are exported for callers without its headers.
FUNCTIONS = (
    "lxb_html_document_create",
    "lxb_html_document_destroy",
    "lxb_html_document_parse",
    "lxb_html_document_dom_opt_set_noi",
    "lxb_dom_node_first_child_noi",
    "lxb_dom_node_next_noi",
    "lxb_dom_node_parent_noi",
    "lxb_dom_node_tag_id_noi",
    "lxb_dom_node_type_noi",
    "lxb_dom_node_text_content",
    "lxb_dom_element_first_attribute_noi",
    "lxb_dom_element_next_attribute_noi",
    "lxb_dom_attr_qualified_name",
    "lxb_dom_attr_value_noi",
)

#: Tags above are those that the standard does not know.
KNOWN_TAGS = 256


class Tag(ctypes.Structure):
    """What the pass does at an element: `struct tag` of reader.c."""

    _fields_ = (
        ("role", ctypes.c_ubyte),
        ("breaking", ctypes.c_ubyte),
        ("hiding", ctypes.c_ubyte),
        ("level", ctypes.c_ubyte),
        ("name", ctypes.c_char_p),
        ("addresses", ctypes.c_char_p),
    )


class _Found(ctypes.Structure):
    """`struct found` of reader.c."""

    _fields_ = (
        ("fields", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
        ("bare", ctypes.c_void_p),
        ("fields_length", ctypes.c_size_t),
        ("text_length", ctypes.c_size_t),
        ("bare_length", ctypes.c_size_t),
        ("words", ctypes.c_size_t),
    )


class Bounds(ctypes.Structure):
    """From when on a page may nest too deep: `struct bounds` of reader.c."""

    _fields_ = (
        ("harmless_tags", ctypes.c_size_t),
        ("stretch_bytes", ctypes.c_size_t),
        ("copies", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


class Found(NamedTuple):
    """What was read: the fields as reader.c orders them, the text, its words, its UTF-8 without white space."""

    fields: str
    text: str
    words: int
    bare: bytes


Reader = Callable[[bytes, int, Bounds | None], Found | None]


def reader(tags: dict[int, Tag]) -> Reader | None:
    """The function that reads a page into its fields (see reader.c), by what to do at each tag; None where it is not.

    It takes the source in UTF-8, lexbor's options and bounds of its nesting, if there are any, and gives None where it
    may go beyond them; it raises MemoryError.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if not _is_of(SOURCE, library):
            return None
        lexbor = ctypes.CDLL(selectolax.lexbor.__file__)
        addresses = [ctypes.cast(getattr(lexbor, name), ctypes.c_void_p).value for name in FUNCTIONS]
        read_page = library.read_page
    except (OSError, AttributeError, ValueError):
        return None
    functions = (ctypes.c_void_p * len(FUNCTIONS))(*addresses)
    table = (Tag * KNOWN_TAGS)()
    for tag_id, tag in tags.items():
        table[tag_id] = tag
    read_page.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint),
        *(ctypes.POINTER(Bounds), ctypes.POINTER(_Found)),
    )
    found = _Found()
    place = ctypes.pointer(found)

    def read(source: bytes, options: int, bounds: Bounds | None) -> Found | None:
        done = read_page(functions, table, source, len(source), options, bounds, place)
        if not done:
            raise MemoryError("a page needs more memory than it may have")
        if done < 0:
            return None
        fields = ctypes.string_at(found.fields, found.fields_length).decode("utf-8", "replace")
        text = ctypes.string_at(found.text, found.text_length).decode("utf-8", "replace")
        return Found(fields, text, found.words, ctypes.string_at(found.bare, found.bare_length))

    return read


def _is_of(source: Path, library: ctypes.CDLL) -> bool:
    """Whether a library was made of a source as it is now: one of an older checkout takes other arguments."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return (ctypes.c_char * len(digest)).in_dll(library, "source_digest").raw == digest.encode()
