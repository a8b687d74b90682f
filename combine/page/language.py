"""The language of a text, detected, and the form of language tags.

CLD2 is asked about the start of the text: measured, 1,000 characters are enough (`docs/decisions`). Where its library
cannot be installed nothing is detected, and the declared language stands. This module never does I/O.
"""

from __future__ import annotations

import re
from contextlib import suppress

with suppress(ImportError):
    import pycld2

#: Characters looked at: 45 µs, and no page of the test files was judged wrongly on so many.
_LOOKED_AT = 1000

#: Shorter texts say too little: a menu of names is in every language.
_LEAST = 40

#: Shorter texts do not speak against what a page declares: of 660 samples of one language each, 23 were judged wrongly
#: on 60 characters, 4 on 100, 2 on 150, none on 200.
_SURE = 200

#: Where a page says its language, this part of its text is asked first, and the longer one only if it does not agree.
#: Of 3,960 texts of two languages, 100 to 700 characters of a menu before the text, 3 were judged otherwise by it; by
#: the first 300 characters 562 were, by the last of the thousand 231.
_GLANCE = slice(300, 600)

#: A declared language stands if it has this share of what the commonest one has: menus are often in another language.
_SHARE = 0.5

_TAG = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_CODES = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "zh-Hant": "zh-Hant"}


def judged(text: str, declared: str) -> str:
    """The language of a text whose page declares one, or none (""), as a BCP 47 tag; "" where nobody can tell.

    The declared one stands unless a text that is long enough is plainly in another.
    """
    if declared and len(text) < _SURE:
        return declared
    primary = declared.partition("-")[0]
    primary = _CODES.get(primary, primary)
    if declared and len(text) >= _GLANCE.stop:
        glance = detected(text[_GLANCE])
        if glance and glance[0][0].partition("-")[0] == primary:
            return declared
    found = detected(text)
    if not found:
        return declared
    language, share = found[0]
    stands = any(primary == other.partition("-")[0] and part >= share * _SHARE for other, part in found)
    return declared if stands else language


def detected(text: str) -> list[tuple[str, int]]:
    """The languages of a text, the commonest first, each with its share in percent; none where nobody can tell."""
    if len(text) < _LEAST or "pycld2" not in globals():
        return []
    sample = text[:_LOOKED_AT].replace("\n", " ")
    try:
        reliable, _, details = pycld2.detect(sample, isPlainText=True)
    except pycld2.error:
        # The library refuses control characters.
        return detected("".join(filter(str.isprintable, sample))) if not sample.isprintable() else []
    known = [(_CODES.get(code, code), share) for _, code, share, _ in details if code != "un"]
    return known if reliable and known and details[0][1] != "un" else []


def tag(value: str) -> str:
    """A declared language as a BCP 47 tag in its usual case, the first of a list; "" where it is none."""
    match = _TAG.fullmatch(value.partition(",")[0].strip().replace("_", "-"))
    if match is None:
        return ""
    first, *rest = match[0].split("-")
    return "-".join([first.lower(), *(_cased(part) for part in rest)])


def _cased(part: str) -> str:
    if len(part) == 2:
        return part.upper()
    return part.title() if len(part) == 4 else part.lower()
