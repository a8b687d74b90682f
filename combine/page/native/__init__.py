"""The pass over a page's tree in C: the same answers as `combine.page.html` in a third of the time.

It is an accelerator and nothing else: it is built where there is a C compiler when Combine is installed (`build.py`),
and where it is not there, or does not fit the lexbor library that selectolax has loaded, pages are read in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import selectolax.lexbor

LIBRARY = Path(__file__).parent / "reader.so"

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


Reader = Callable[[bytes, int], str]


def reader(tags: dict[int, Tag]) -> Reader | None:
    """The function that reads a page into its fields (see reader.c), by what to do at each tag; None where it is not.

    It takes the source in UTF-8 and lexbor's options; it raises MemoryError.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        lexbor = ctypes.CDLL(selectolax.lexbor.__file__)
        addresses = [ctypes.cast(getattr(lexbor, name), ctypes.c_void_p).value for name in FUNCTIONS]
        read_page = library.read_page
    except (OSError, AttributeError):
        return None
    functions = (ctypes.c_void_p * len(FUNCTIONS))(*addresses)
    table = (Tag * KNOWN_TAGS)()
    for tag_id, tag in tags.items():
        table[tag_id] = tag
    read_page.restype = ctypes.c_void_p
    read_page.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint),
        ctypes.POINTER(ctypes.c_size_t),
    )
    length = ctypes.c_size_t()
    place = ctypes.pointer(length)

    def read(source: bytes, options: int) -> str:
        found = read_page(functions, table, source, len(source), options, place)
        if not found:
            raise MemoryError("a page needs more memory than it may have")
        return ctypes.string_at(found, length.value).decode("utf-8", "replace")

    return read
