"""Signals about rights, word for word: what a page and its site say about mining, training and other use.

Each is a triple of signal, value and where it stood. They are recorded whatever the purpose of a harvest is; which of
them reserve a page from a purpose says `reserved`, where records are used. This module never does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from formats.hrf import Harvest

#: Words in meta robots and X-Robots-Tag that speak of use and not of indexing.
_WORDS = frozenset({"noai", "noimageai", "noml"})

#: Header fields and metas that are signals as a whole.
_FIELDS = ("tdm-reservation", "tdm-policy", "content-usage", "content-signal")
_METAS = frozenset({"tdm-reservation", "tdm-policy", "content-usage", "content-signal"})


def rights(harvest: Harvest, metas: list[tuple[str, str]]) -> tuple[tuple[str, str, str], ...]:
    """The signals of a page, each once, header before meta."""
    found: dict[tuple[str, str, str], None] = {}
    of_site = [value.split("\t", 2) for name, value in harvest.extra if name == "Right"]
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
    for parts in of_site:
        if len(parts) == 3:
            found[(parts[0], parts[1], parts[2])] = None
    return tuple(found)


def reserved(signals: Iterable[tuple[str, ...]], purpose: str) -> str:
    """The signal that reserves a page from a purpose, in a word; "" where nothing does, or the purpose is not bound.

    For `research` a reservation of text and data mining counts; for `ai` also what speaks of training and AI. A header
    goes before a meta, and both before the site's tdmrep.json.
    """
    if purpose not in ("research", "ai"):
        return ""
    known = [signal for signal in signals if len(signal) == 3]
    for where in ("header", "meta", "/.well-known/tdmrep.json"):
        said = [value.strip() for name, value, seen in known if name == "tdm-reservation" and seen == where]
        if said:
            if "1" in said:
                return "tdm-reservation"
            break
    for name, value, _ in known:
        if name in ("content-signal", "content-usage") and _forbids(value, purpose):
            return name
        if purpose == "ai" and (name in _WORDS or name == "ai.txt"):
            return name
    return ""


#: What is said in Content-Signal and Content-Usage of each purpose.
_KEYS = {
    "research": frozenset({"tdm", "bots"}),
    "ai": frozenset(
        {"tdm", "bots", "ai", "ai-train", "ai-input", "ai-use", "ai-output", "train-ai", "train-genai", "genai"}
    ),
}


def _forbids(value: str, purpose: str) -> bool:
    pairs = (part.partition("=") for part in value.lower().replace(";", ",").split(","))
    # In a robots.txt the path may stand before it; of its lines only those reach a record that are for the page.
    return any((key.split() or [""])[-1] in _KEYS[purpose] and said.strip() in ("n", "no") for key, _, said in pairs)


def _said(value: str) -> list[str]:
    words = value.lower().replace(",", " ").replace(":", " ").split()
    return [word for word in words if word in _WORDS]
