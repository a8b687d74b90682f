"""What a body is, by its header and its first bytes: the WHATWG MIME sniffing standard, then a test for binary bodies.

The header is trusted but where the standard says that servers get it wrong. The binary test looks at bodies that claim
to be text and decides by shares of bytes; byte order marks and a declared UTF-16, whose text is full of NULs, go first.
This module never does I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from combine.page.mime import Mime, combined

#: Bytes of the body that the standard lets a reader look at.
HEADER_BYTES = 1445

#: Bytes that the binary test looks at, and that its shares are shares of.
BINARY_BYTES = 1024

_UNKNOWN = frozenset({"unknown/unknown", "application/unknown", "*/*"})

#: Fields that old Apache servers send for what they do not know, spelled exactly so.
_APACHE = frozenset(
    {"text/plain", "text/plain; charset=ISO-8859-1", "text/plain; charset=iso-8859-1", "text/plain; charset=UTF-8"}
)

_BOM = re.compile(rb"\xfe\xff|\xff\xfe|\xef\xbb\xbf")
_BINARY_DATA = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_HTML = re.compile(
    rb"[\t\n\f\r ]*(?:<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[ >]|<!--)",
    re.IGNORECASE,
)
_XML = re.compile(rb"[\t\n\f\r ]*<\?xml")
_FEED = re.compile(
    # What was passed over once is not tried another way (`*+`): else a row of comments takes for ever.
    rb"(?:\xef\xbb\xbf)?(?:[\t\n\r ]+|<!--.*?-->|<![^>]*>|<\?.*?\?>)*+"
    rb"<(?:(rss)|(feed)|(rdf:RDF)(?=.*?purl\.org/rss/1\.0/)(?=.*?www\.w3\.org/1999/02/22-rdf-syntax-ns#))",
    re.DOTALL,
)
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/rss+xml")

_IMAGES = (
    (re.compile(rb"\x00\x00[\x01\x02]\x00"), "image/x-icon"),
    (re.compile(rb"BM"), "image/bmp"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBPVP", re.DOTALL), "image/webp"),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
)
_SOUNDS = (
    (re.compile(rb"FORM.{4}AIFF", re.DOTALL), "audio/aiff"),
    (re.compile(rb"ID3"), "audio/mpeg"),
    (re.compile(rb"OggS\x00"), "application/ogg"),
    (re.compile(rb"MThd\x00\x00\x00\x06"), "audio/midi"),
    (re.compile(rb"RIFF.{4}AVI ", re.DOTALL), "video/avi"),
    (re.compile(rb"RIFF.{4}WAVE", re.DOTALL), "audio/wave"),
)
_ARCHIVES = (
    (re.compile(rb"\x1f\x8b\x08"), "application/x-gzip"),
    (re.compile(rb"PK\x03\x04"), "application/zip"),
    (re.compile(rb"Rar!\x1a\x07\x00"), "application/x-rar-compressed"),
)
_DOCUMENTS = ((re.compile(rb"%PDF-"), "application/pdf"), (re.compile(rb"%!PS-Adobe-"), "application/postscript"))

_PRINTABLE = bytes([7, 8, 9, 10, 12, 13, 27, *range(0x20, 0x7F), *range(0xA0, 0x100)])
_LOW = bytes(range(0x80))

#: Types other than text/* whose bodies are text all the same.
_TEXTUAL = frozenset(
    {
        *("application/javascript", "application/ecmascript", "application/json", "application/ld+json"),
        *(
            "application/x-javascript",
            "application/xhtml+xml",
            "application/x-sh",
            "application/x-tex",
            "image/svg+xml",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Sniffed:
    """The type in use, the charset its field declares ("" if none), and whether the body is anything but text."""

    type: str
    charset: str = ""
    binary: bool = False


def sniff(body: bytes, content_types: list[str], nosniff: bool) -> Sniffed:
    """Tell the type of a body from its Content-Type fields and its first bytes."""
    supplied = combined(content_types)
    field = content_types[-1].strip() if content_types else ""
    essence = _computed(body[:HEADER_BYTES], supplied, field in _APACHE, nosniff)
    charset = supplied.get("charset") if supplied is not None and supplied.essence == essence else ""
    return Sniffed(essence, charset, not is_textual(essence) or _is_binary(body[:BINARY_BYTES], charset))


def is_textual(essence: str) -> bool:
    """Tell whether a type claims that its bodies are text."""
    return essence.startswith("text/") or essence.endswith(("+xml", "+json")) or essence in _TEXTUAL or _is_xml(essence)


def _is_xml(essence: str) -> bool:
    return essence == "application/xml"


def _computed(head: bytes, supplied: Mime | None, from_apache: bool, nosniff: bool) -> str:
    if supplied is None or supplied.essence in _UNKNOWN:
        return _identified(head, not nosniff)
    essence = supplied.essence
    if nosniff:
        return essence
    if from_apache:
        return "text/plain" if _BOM.match(head) or not _BINARY_DATA.search(head) else "application/octet-stream"
    if supplied.is_xml:
        return essence
    if essence == "text/html":
        return _feed_or_html(head)
    if essence.startswith("image/"):
        return _matched(head, _IMAGES) or essence
    if essence.startswith(("audio/", "video/")) or essence == "application/ogg":
        return _sound_or_film(head) or essence
    return essence


def _identified(head: bytes, scriptable: bool) -> str:
    """The rules for a body of unknown type; `scriptable` types are named only where sniffing is allowed."""
    if scriptable:
        if _HTML.match(head):
            return "text/html"
        if _XML.match(head):
            return "text/xml"
        if head.startswith(b"%PDF-"):
            return "application/pdf"
    if found := _matched(head, _DOCUMENTS[1:]):
        return found
    if _BOM.match(head):
        return "text/plain"
    if found := _matched(head, _IMAGES) or _sound_or_film(head) or _matched(head, _ARCHIVES):
        return found
    return "application/octet-stream" if _BINARY_DATA.search(head) else "text/plain"


def _feed_or_html(head: bytes) -> str:
    match = _FEED.match(head)
    return _FEED_TYPES[(match.lastindex or 1) - 1] if match else "text/html"


def _matched(head: bytes, patterns: tuple[tuple[re.Pattern[bytes], str], ...]) -> str:
    return next((name for pattern, name in patterns if pattern.match(head)), "")


def _sound_or_film(head: bytes) -> str:
    if found := _matched(head, _SOUNDS):
        return found
    if _is_mp4(head):
        return "video/mp4"
    if _is_webm(head):
        return "video/webm"
    return "audio/mpeg" if _is_mp3(head) else ""


def _is_mp4(head: bytes) -> bool:
    size = int.from_bytes(head[:4], "big")
    if size < 12 or len(head) < size or size % 4 or head[4:8] != b"ftyp":
        return False
    # The major brand stands at 8, a version at 12, compatible brands from 16 on. The standard knows "mp4" only; most
    # files call themselves "isom".
    return head[8:12] == b"isom" or any(head[at : at + 3] == b"mp4" for at in (8, *range(16, size, 4)))


def _is_webm(head: bytes) -> bool:
    if not head.startswith(b"\x1a\x45\xdf\xa3"):
        return False
    at = 4
    while at < len(head) and at < 38:
        if head[at : at + 2] == b"\x42\x82":
            at += 2
            if at >= len(head):
                return False
            at += _vint_length(head[at])
            name = head[at:].lstrip(b"\x00")
            return at < len(head) - 4 and name.startswith(b"webm")
        at += 1
    return False


def _vint_length(first: int) -> int:
    length = 1
    while length < 8 and not first & (0x80 >> (length - 1)):
        length += 1
    return length


_MP3_RATES = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MP25_RATES = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_SAMPLES = (44_100, 48_000, 32_000)


def _is_mp3(head: bytes) -> bool:
    size = _mp3_frame(head, 0)
    return bool(size) and bool(_mp3_frame(head, size))


def _mp3_frame(head: bytes, at: int) -> int:
    """The bytes of the MP3 frame that starts there, 0 where none does."""
    if len(head) < at + 4 or head[at] != 0xFF or head[at + 1] & 0xE0 != 0xE0:
        return 0
    version, layer = (head[at + 1] & 0x18) >> 3, (head[at + 1] & 0x06) >> 1
    rate, sample = head[at + 2] >> 4, (head[at + 2] & 0x0C) >> 2
    if layer != 1 or rate == 15 or sample == 3:
        return 0
    bits = (_MP25_RATES if not version & 1 else _MP3_RATES)[rate] * 1000
    scale = 72 if version == 1 else 144
    return bits * scale // _SAMPLES[sample] + ((head[at + 2] & 0x02) >> 1)


def _is_binary(head: bytes, charset: str) -> bool:
    """Test a body that claims to be text, on at most 1,024 bytes; shares are of 1,024 whatever the length."""
    if not head or _BOM.match(head) or charset.lower().startswith(("utf-16", "utf16", "ucs-2", "unicode")):
        return False
    if _is_utf8(head):
        return False
    control = len(head.translate(None, _PRINTABLE)) / BINARY_BYTES
    high = len(head.translate(None, _LOW)) / BINARY_BYTES
    if (control > 0.30 and high < 0.05) or (control > 0.80 and high > 0.80):
        return True
    return 0 in head


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character cut by the end of what is looked at is no fault.
        return error.reason == "unexpected end of data" and len(head) == BINARY_BYTES
    return True
