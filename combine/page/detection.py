"""The encoding of a text that declares none, judged by its bytes.

chardet is asked about what a page of the web may be written in: the encodings of the standard, and the five that real
texts were found in beside them. Those five are believed only where the bytes prove them; otherwise the answer is the
likeliest encoding of the standard, so that a few odd bytes are never said to be in one that no browser knows.
This module never does I/O.
"""

from __future__ import annotations

import re

from combine.page.labels import encoding_for

#: Bytes of a body that are looked at.
_LOOK_BYTES = 64 * 1024

#: Bytes shown to the detector after squeezing: more makes it no surer (measured), and its time grows with them.
_SHOWN_BYTES = 8 * 1024

#: Long runs of ASCII are markup, and say nothing but their ends, where they are parts of characters of two bytes.
_ASCII_RUN = re.compile(rb"[\x01-\x7f]{17,}")
_ENDS_BYTES = 8

#: What may be answered, in the detector's names; it knows 33 more, which no page of the web is in.
_WEB = (
    *("ascii", "utf-8", "utf-16-be", "utf-16-le", "big5hkscs", "cp932", "cp949", "euc_jis_2004", "euc_kr", "gb18030"),
    *("iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_ext", "shift_jis_2004", "cp874", "tis-620", "cp866"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8-r", "koi8-u"),
    *("iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8"),
    *("iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16", "mac-cyrillic", "mac-roman"),
)
_BEYOND = ("utf-32", "utf-32-be", "utf-32-le", "iso2022_kr", "hz", "johab", "cp855")

#: Codecs by the names that the standard has for what they read.
_NAMES = {
    **dict.fromkeys(("cp932", "shift_jis_2004", "shift_jisx0213"), "Shift_JIS"),
    **dict.fromkeys(("cp949", "euc_kr"), "EUC-KR"),
    **dict.fromkeys(("cp950", "big5hkscs", "big5-hkscs"), "Big5"),
    **dict.fromkeys(("cp936", "gb2312"), "GBK"),
    **dict.fromkeys(("euc_jis_2004", "euc_jisx0213"), "EUC-JP"),
    **dict.fromkeys(("iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_ext"), "ISO-2022-JP"),
    **{"cp874": "windows-874", "mac-roman": "macintosh", "macroman": "macintosh"},
    **{"mac-cyrillic": "x-mac-cyrillic", "maccyrillic": "x-mac-cyrillic", "utf-16-be": "UTF-16BE"},
    "utf-16-le": "UTF-16LE",
}

#: Encodings that the standard does not read, and the least confidence that is believed: real texts have .27 and more in
#: IBM855 and .32 in Johab, random bytes .05 at most. The others are told by their form.
_PROOF = {
    **{"utf-32": ("UTF-32", 0.9), "utf-32-be": ("UTF-32BE", 0.9), "utf-32-le": ("UTF-32LE", 0.9)},
    **{"iso-2022-kr": ("ISO-2022-KR", 0.9), "hz-gb-2312": ("HZ-GB-2312", 0.9)},
    **{"johab": ("Johab", 0.2), "ibm855": ("IBM855", 0.2)},
}

#: Bytes beyond ASCII without which IBM855 and Johab are no more than a guess.
_PROOF_BYTES = 100


def detected(body: bytes) -> str:
    """The name of the encoding that a body is probably in; "" where nobody can tell."""
    shown = _shown(body)
    found, confidence = _asked(shown, (*_WEB, *_BEYOND))
    if name := _named(found):
        return name
    name, least = _PROOF.get(found, ("", 1.0))
    if name and confidence >= least and _is_proven(body[:_LOOK_BYTES], name):
        return name
    return _named(_asked(shown, _WEB)[0]) if found else ""


def _shown(body: bytes) -> bytes:
    """What the detector sees of a body: its parts that are not ASCII, with their neighbours."""
    body = body[:_LOOK_BYTES]
    if b"\x00" in body or b"\x1b" in body or body.isascii():
        return body
    return _ASCII_RUN.sub(lambda run: run[0][:_ENDS_BYTES] + run[0][-_ENDS_BYTES:], body)[:_SHOWN_BYTES]


def _asked(shown: bytes, names: tuple[str, ...]) -> tuple[str, float]:
    # Loaded when first needed: 38 MB, and most parsers never meet such a page.
    import chardet

    found = chardet.detect(shown, include_encodings=names)
    return (found["encoding"] or "").lower(), found["confidence"] or 0.0


def _named(found: str) -> str:
    name = _NAMES.get(found) or encoding_for(found)
    # The standard reads the stateful Asian encodings as nothing, to keep scripts safe. Here no script runs.
    return "" if name == "replacement" else name


def _is_proven(body: bytes, name: str) -> bool:
    if name in ("IBM855", "Johab") and len(body) - len(body.translate(None, _HIGH)) < _PROOF_BYTES:
        return False
    # A character cut at the end of what is looked at is no fault.
    return "\ufffd" not in body.decode(name, "replace")[:-2]


_HIGH = bytes(range(0x80, 0x100))
