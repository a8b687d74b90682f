"""The encodings of East Asia, several bytes a character, read and written as the Encoding standard (10 to 13) does.

Theory of operation. Python's codecs read them nearly as the standard does, and in C. Where a codec fails, an error
handler reads on by the standard's rules: a character that the standard has and the codec has not, or U+FFFD for as many
bytes as belong to one error. A character that the codec takes for another is put right in the text where that other one
shows; where it would not show, because both look alike, the text is read in pieces around it. ISO-2022-JP has a decoder
of its own here. What is written for a character is found by reading all pairs once.

What differs was found by comparing every sequence with the indexes of the standard: 6 characters of EUC-JP, and 457
that it has more; 11 of Big5, and 192 more; 21 of gb18030. This module never does I/O.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable
from functools import cache

_BAD = "\ufffd"

#: Of Big5, what Python's big5hkscs has not: two bytes in hexadecimal, and the characters from there on.
_BIG5_MORE = """\
877a㡵𡵓𣚞𦀡㻬
87a1𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋
8e69箸 8e6f簆 8e7e糎 8eab緒 8eb4縝 8ecd者 8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦覩 8ffe起 906d都 907a銹 90dc靜
90f1響 91bf鼖 9244蔃 92af兙兛兝兞 92c8鍮 92d1瑹 9447浧 94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁 9b78矗 9b7b纇
9bc6駖 9bde釔 9bec惞 9bf6澶 9c42輶 9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9cbc尐秣 9cd0婧 9d57輋 9d5a筑 9dc4拐
9ea9恢 9eef痹 9efd汊 9f60鬮 9f66鼗 9fcb僭 9fd8弌 a063蠏 a077拎 a0d5瑨 a0df煢 a0e4牐
a3c0␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf廴 c6d3无 c6d5癶 c6d7隶 c6de〃仝 fa5f倩 fa66偽 fabd包 fac5卄 fad5卿
fb48嘅 fbb8婷 fbf3幵 fbf9廐 fc4f彘 fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩
fedd砉
"""

#: Of gb18030, what changed in the standard of 2022, and 0xA3A0, which the web uses for a blank.
_GB18030 = (
    "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796",
    "\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19",
)


class _Reader:
    """How one encoding is read: by a codec, and by the standard where the codec differs from it."""

    def __init__(
        self,
        codec: str,
        wrong: bytes,
        more: Callable[[bytes], str] = lambda sequence: "",
        fixes: tuple[str, str] = ("", ""),
        apart: tuple[bytes, dict[bytes, str]] = (b"", {}),
    ) -> None:
        self._codec = codec
        self._wrong = re.compile(wrong)  # the bytes of one error
        self._more = more  # what two bytes mean, or one, that the codec cannot read; "" for nothing
        self._fixes = str.maketrans(*fixes)
        self._shown = re.compile(f"[{fixes[0]}]") if fixes[0] else None
        self._token, self._apart = re.compile(apart[0]), apart[1]  # characters; those that look like others
        codecs.register_error(f"combine.{codec}", self._read_on)

    def read(self, body: bytes) -> str:
        """Decode a body; every body is a text."""
        if not any(sequence in body for sequence in self._apart):
            return self._piece(body)
        pieces: list[str] = []
        start = 0
        for match in self._token.finditer(body):
            if character := self._apart.get(match[0]):
                pieces += (self._piece(body[start : match.start()]), character)
                start = match.end()
        return "".join([*pieces, self._piece(body[start:])])

    def _piece(self, body: bytes) -> str:
        text = body.decode(self._codec, f"combine.{self._codec}")
        return text.translate(self._fixes) if self._shown and self._shown.search(text) else text

    def _read_on(self, error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        body, at = error.object, error.start
        for sequence in (body[at : at + 2], body[at : at + 1]):
            if character := self._more(sequence):
                return character, at + len(sequence)
        match = self._wrong.match(body, at)
        return _BAD, match.end() if match else at + 1


@cache
def _big5_more() -> dict[bytes, str]:
    found = {}
    for run in _BIG5_MORE.split():
        lead, trail = bytes.fromhex(run[:4])
        found.update({bytes([lead, trail + place]): character for place, character in enumerate(run[4:])})
    return found


def _jis0208(pair: bytes) -> str:
    """A pair of EUC-JP by way of Shift_JIS, whose codec has all that the index has."""
    if len(pair) != 2 or not all(0xA1 <= byte <= 0xFE for byte in pair):
        return ""
    lead, trail = divmod((pair[0] - 0xA1) * 94 + pair[1] - 0xA1, 188)
    lead += 0x81 if lead < 0x1F else 0xC1
    try:
        return bytes([lead, trail + (0x40 if trail < 0x3F else 0x41)]).decode("cp932")
    except UnicodeDecodeError:
        return ""


# A byte of ASCII is never part of an error: it begins the next character.
_READERS = {
    "Big5": _Reader(
        "big5hkscs",
        rb"[\x81-\xfe][\x80-\xff]?",
        lambda pair: _big5_more().get(pair, ""),
        (
            "\u2022\uff64\u203e\u223c\u2641\u2609\xa5\xa2\xa3",
            "\u2027\ufe51\xaf\uff5e\u2295\u2299\uffe5\uffe0\uffe1",
        ),
        (rb"[\x81-\xfe][\x40-\x7e\x80-\xff]?|[\x00-\x80\xff]+", {b"\xa2\x41": "\u2215", b"\xa2\x42": "\ufe68"}),
    ),
    "EUC-JP": _Reader(
        "euc_jp",
        rb"\x8f[\xa1-\xfe](?:[\x80-\xff]|)|[\x8e\x8f\xa1-\xfe][\x80-\xff]?",
        _jis0208,
        ("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2"),
        (
            rb"\x8f[\xa1-\xfe](?:[\x80-\xff]|)|[\x8e\x8f\xa1-\xfe][\x80-\xff]?|[^\x8e\x8f\xa1-\xfe]+",
            {b"\x8f\xa2\xb7": "\uff5e"},
        ),
    ),
    "EUC-KR": _Reader("cp949", rb"[\x81-\xfe][\x80-\xff]?"),
    "gb18030": _Reader(
        "gb18030",
        rb"[\x81-\xfe](?:[\x30-\x39](?:[\x81-\xfe][\x30-\x39]|[\x81-\xfe]?\Z)|[\x80-\xff]?)",
        lambda sequence: "\u20ac" if sequence == b"\x80" else "",
        (_GB18030[0] + "\ue5e5\ue7c7\u1e3f", _GB18030[1] + "\u3000\u1e3f\ue7c7"),
    ),
    "Shift_JIS": _Reader("cp932", rb"[\x81-\x9f\xe0-\xfc][\x80-\xff]?", fixes=("\uf8f0\uf8f1\uf8f2\uf8f3", _BAD * 4)),
}
_READERS["GBK"] = _READERS["gb18030"]

_ESCAPE = 0x1B
_ASCII, _ROMAN, _KATAKANA, _PAIRS = range(4)
_MODES = {b"(B": _ASCII, b"(J": _ROMAN, b"(I": _KATAKANA, b"$@": _PAIRS, b"$B": _PAIRS}
_RUNS = (
    re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]+"),
    re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]+"),
    re.compile(rb"[\x21-\x5f]+"),
    re.compile(rb"(?:[\x21-\x7e]{2})+"),
)
_HALF_PAIR = re.compile(rb"[\x21-\x7e][^\x1b]?", re.DOTALL)


def _iso_2022_jp(body: bytes) -> str:
    pieces = []
    mode = _ASCII
    is_idle = False  # nothing came since the last escape sequence
    at = 0
    while at < len(body):
        if body[at] == _ESCAPE and (found := _MODES.get(body[at + 1 : at + 3])) is not None:
            # Two in a row are an error, so that nothing hides between them.
            pieces.append(_BAD if is_idle else "")
            mode, is_idle, at = found, True, at + 3
            continue
        is_idle = False
        if run := _RUNS[mode].match(body, at):
            pieces.append(_in_mode(run[0], mode))
            at = run.end()
            continue
        half = _HALF_PAIR.match(body, at) if mode == _PAIRS else None
        pieces.append(_BAD)
        at = half.end() if half else at + 1
    return "".join(pieces)


def _in_mode(run: bytes, mode: int) -> str:
    if mode == _PAIRS:
        return _READERS["EUC-JP"].read(bytes([byte | 0x80 for byte in run]))
    if mode == _KATAKANA:
        return "".join([chr(0xFF61 - 0x21 + byte) for byte in run])
    text = run.decode("ascii")
    return text.replace("\\", "\xa5").replace("~", "\u203e") if mode == _ROMAN else text


def decode(body: bytes, encoding: str) -> str | None:
    """Decode a body in an encoding, by its WHATWG name; None where it is not one of those that are read here."""
    if encoding == "ISO-2022-JP":
        return _iso_2022_jp(body)
    reader = _READERS.get(encoding)
    return reader.read(body) if reader else None


#: The bytes of pairs that an encoder looks through: not all that are read are written.
_WRITTEN = {
    "Big5": ((0xA1, 0xFE),),
    "EUC-JP": ((0xA1, 0xFE),),
    "EUC-KR": ((0x81, 0xFE),),
    "gb18030": ((0x81, 0xFE),),
    "Shift_JIS": ((0x81, 0x9F), (0xE0, 0xEC), (0xFA, 0xFC)),
}
#: Of these Big5 writes the last of several pairs, of others the first (Encoding standard, 5).
_LAST = frozenset("\u2550\u255e\u2561\u256a\u5341\u5345")
_GB18030_PRIVATE = {"\ue5e5": b"", "\ue7c7": b"\x81\x35\xf4\x37"}
_FULL_WIDTH = str.maketrans("\u2212", "\uff0d")


def encode(text: str, encoding: str, number: Callable[[str], bytes]) -> bytes | None:
    """Write a text as the standard does; `number` writes a character that the encoding has not.

    None where the encoding is not one of those that are read here.
    """
    if encoding == "ISO-2022-JP":
        return _in_iso_2022_jp(text, number)
    table = _pairs("gb18030" if encoding == "GBK" else encoding) if encoding in _READERS else None
    if table is None:
        return None
    if encoding in ("Shift_JIS", "EUC-JP"):
        text = text.translate(_FULL_WIDTH)
    is_gbk = encoding == "GBK"
    pieces = []
    for character in text:
        if is_gbk and character == "\u20ac":
            pieces.append(b"\x80")
        elif character in table:
            pieces.append(table[character])
        else:
            written = _four_bytes(character) if encoding in ("GBK", "gb18030") else b""
            pieces.append(number(character) if not written or (is_gbk and len(written) > 2) else written)
    return b"".join(pieces)


@cache
def _pairs(encoding: str) -> dict[str, bytes]:
    """What an encoder writes for each character of one or two bytes, made by reading them all."""
    table = {chr(byte): bytes([byte]) for byte in range(0x80)}
    if encoding in ("Shift_JIS", "EUC-JP"):
        lead = b"\x8e" if encoding == "EUC-JP" else b""
        table |= {chr(0xFF61 + place): lead + bytes([0xA1 + place]) for place in range(0x3F)}
        table |= {"\xa5": b"\x5c", "\u203e": b"\x7e"}
    if encoding == "Shift_JIS":
        table["\x80"] = b"\x80"
    reader = _READERS[encoding]
    for first, last in _WRITTEN[encoding]:
        for lead_byte in range(first, last + 1):
            row = [bytes([lead_byte, trail]) for trail in range(0x40, 0xFF)]
            for pair, character in zip(row, reader.read(b"\n".join(row)).split("\n"), strict=True):
                if len(character) != 1 or character == _BAD:
                    continue
                if encoding == "Big5" and character in _LAST:
                    table[character] = pair
                table.setdefault(character, pair)
    return table


def _four_bytes(character: str) -> bytes:
    """What gb18030 writes for a character that no pair reads: four bytes, or those of its private use before 2022."""
    if character in _GB18030_PRIVATE:
        return _GB18030_PRIVATE[character]
    return character.encode("gb18030", "ignore")


def _in_iso_2022_jp(text: str, number: Callable[[str], bytes]) -> bytes:
    pairs = _pairs("EUC-JP")
    pieces = []
    mode = b"(B"
    for character in text.translate(_full_width()):
        pair = pairs.get(character, b"")
        if character in "\xa5\u203e":
            wanted, written = b"(J", pair
        elif len(pair) == 2:
            wanted, written = b"$B", bytes([pair[0] & 0x7F, pair[1] & 0x7F])
        else:
            # ASCII, and what is written as a number. In the mode of Latin letters all of it but two characters stays.
            wanted = b"(J" if mode == b"(J" and character not in "\\~" else b"(B"
            is_escape = character in "\x0e\x0f\x1b"  # they would be read as parts of another mode
            written = number(_BAD) if is_escape else pair or number(character)
        if wanted != mode:
            pieces.append(b"\x1b" + wanted)
            mode = wanted
        pieces.append(written)
    return b"".join(pieces if mode == b"(B" else [*pieces, b"\x1b(B"])


@cache
def _full_width() -> dict[int, str]:
    """The katakana that ISO-2022-JP writes for those of half width, and the minus sign of all of Japan."""
    wide = {number: unicodedata.normalize("NFKC", chr(number)) for number in range(0xFF61, 0xFF9E)}
    return {**wide, 0xFF9E: "\u309b", 0xFF9F: "\u309c", 0x2212: "\uff0d"}
