"""Signals about rights, word for word: what a page and its server say about mining, training and other use.

They are recorded and never interpreted here: who may use a record for what is decided where records are used.
Each is a triple of signal, value and where it stood. This module never does I/O.
"""

from __future__ import annotations

from formats.hrf import Harvest

#: Words in meta robots and X-Robots-Tag that speak of use and not of indexing.
_WORDS = frozenset({"noai", "noimageai", "noml"})

#: Header fields and metas that are signals as a whole.
_FIELDS = ("tdm-reservation", "tdm-policy", "content-usage", "content-signal")
_METAS = frozenset({"tdm-reservation", "tdm-policy", "content-usage", "content-signal"})


def rights(harvest: Harvest, metas: list[tuple[str, str]]) -> tuple[tuple[str, str, str], ...]:
    """The signals of a page, each once, header before meta."""
    found: dict[tuple[str, str, str], None] = {}
    for name, value in harvest.fields:
        if name in _FIELDS:
            found[(name, value, "header")] = None
        elif name == "x-robots-tag":
            found.update(((word, value, "header"), None) for word in _said(value))
    for name, content in metas:
        if name in _METAS:
            found[(name, content, "meta")] = None
        elif name == "robots":
            found.update(((word, content, "meta"), None) for word in _said(content))
    return tuple(found)


def _said(value: str) -> list[str]:
    words = value.lower().replace(",", " ").replace(":", " ").split()
    return [word for word in words if word in _WORDS]
