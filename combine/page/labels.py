"""The names of character encodings: the WHATWG labels, and the codec that reads each encoding.

The table is the one of the Encoding standard, section 4.2. Codecs are Python's nearest, put right where they differ
from the standard: those of one byte a character here, the others in `legacy`. This module never does I/O.
"""

from __future__ import annotations

import codecs
from functools import cache

from combine.page import legacy

_TABLE = """\
UTF-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8
IBM866: 866 cp866 csibm866 ibm866
ISO-8859-2: csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
ISO-8859-3: csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
ISO-8859-4: csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
ISO-8859-5: csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
ISO-8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i
    iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
ISO-8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7
    iso_8859-7:1987 sun_eu_greek
ISO-8859-8: csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8
    iso_8859-8:1988 visual
ISO-8859-8-I: csiso88598i iso-8859-8-i logical
ISO-8859-10: csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6
ISO-8859-13: iso-8859-13 iso8859-13 iso885913
ISO-8859-14: iso-8859-14 iso8859-14 iso885914
ISO-8859-15: csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9
ISO-8859-16: iso-8859-16
KOI8-R: cskoi8r koi koi8 koi8-r koi8_r
KOI8-U: koi8-ru koi8-u
macintosh: csmacintosh mac macintosh x-mac-roman
windows-874: dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874
windows-1250: cp1250 windows-1250 x-cp1250
windows-1251: cp1251 windows-1251 x-cp1251
windows-1252:
    ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1
    iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252
windows-1253: cp1253 windows-1253 x-cp1253
windows-1254: cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5
    windows-1254 x-cp1254
windows-1255: cp1255 windows-1255 x-cp1255
windows-1256: cp1256 windows-1256 x-cp1256
windows-1257: cp1257 windows-1257 x-cp1257
windows-1258: cp1258 windows-1258 x-cp1258
x-mac-cyrillic: x-mac-cyrillic x-mac-ukrainian
GBK: chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk
gb18030: gb18030
Big5: big5 big5-hkscs cn-big5 csbig5 x-x-big5
EUC-JP: cseucpkdfmtjapanese euc-jp x-euc-jp
ISO-2022-JP: csiso2022jp iso-2022-jp
Shift_JIS: csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis
EUC-KR: cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601
    windows-949
replacement: csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement
UTF-16BE: unicodefffe utf-16be
UTF-16LE: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le
x-user-defined: x-user-defined
"""

_CODECS = {
    "IBM866": "cp866",
    "ISO-8859-8-I": "iso8859_8",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
}

#: Beginnings of the names of encodings that are read by a table made here, and what Python has otherwise in them.
_TABLED = ("windows-", "x-user", "KOI8-U")
_OTHERWISE = {"KOI8-U": {0xAE: "\u045e", 0xBE: "\u040e"}, "windows-1255": {0xCA: "\u05ba"}}


def _labels() -> dict[str, str]:
    labels: dict[str, str] = {}
    name = ""
    for line in _TABLE.splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
        labels.update(dict.fromkeys(line.split(), name))
    return labels


_LABELS = _labels()

#: The names of the encodings of the standard.
NAMES = frozenset(_LABELS.values())


def encoding_for(label: str) -> str:
    """The encoding that a label names, by its WHATWG name; "" for an unknown label."""
    return _LABELS.get(label.strip("\t\n\f\r ").lower(), "")


def decode(body: bytes, encoding: str) -> str:
    """Read bytes in an encoding, by its WHATWG name or IANA's of one that is beyond the standard.

    What cannot be read becomes U+FFFD. The result never holds a surrogate.
    """
    if encoding == "UTF-8":
        return body.decode("utf-8", "replace")
    if encoding == "replacement":
        return "\ufffd" if body else ""
    if encoding.startswith(_TABLED):
        return codecs.charmap_decode(body, "replace", _single_bytes(encoding))[0]
    if (text := legacy.decode(body, encoding)) is not None:
        return text
    return body.decode(_CODECS.get(encoding, encoding), "replace")


def query_bytes(text: str, encoding: str) -> bytes:
    """Write text in an encoding, by its WHATWG name, for the query of a URL.

    A character that it does not have becomes its number, as in forms: `&#8224;`, percent-encoded. Encodings that are
    for reading only (UTF-16, replacement, and those that the standard does not know) write UTF-8.
    """
    if encoding.startswith("UTF-") or encoding == "replacement" or encoding not in NAMES:
        return text.encode("utf-8", "replace")
    if encoding.startswith(_TABLED):
        return codecs.charmap_encode(text, _NUMBER, _numbers(encoding))[0]
    if (written := legacy.encode(text, encoding, _number)) is not None:
        return written
    return text.encode(_CODECS.get(encoding, encoding), _NUMBER)


def _number(character: str) -> bytes:
    return b"%%26%%23%d%%3B" % ord(character)


def _as_number(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return b"".join(map(_number, error.object[error.start : error.end])).decode("ascii"), error.end


_NUMBER = "combine.number"
codecs.register_error(_NUMBER, _as_number)


@cache
def _numbers(encoding: str) -> dict[int, int]:
    return {ord(character): number for number, character in enumerate(_single_bytes(encoding)) if character != "\ufffd"}


@cache
def _single_bytes(encoding: str) -> str:
    """The 256 characters of an encoding: the standard's windows ones keep the C1 controls, Python's do not."""
    if encoding == "x-user-defined":
        return bytes(range(0x80)).decode("ascii") + "".join(chr(0xF780 + place) for place in range(0x80))
    codec = _CODECS.get(encoding, encoding)
    characters = []
    for number in range(256):
        character = _OTHERWISE.get(encoding, {}).get(number) or bytes([number]).decode(codec, "replace")
        characters.append(chr(number) if character == "\ufffd" and number < 0xA0 else character)
    return "".join(characters)
