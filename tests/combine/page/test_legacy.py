"""Encodings of several bytes a character: where Python's codecs and the Encoding standard part ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.page.labels import NAMES, decode, query_bytes

BAD = "\ufffd"


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("Big5", "a145 a14e a1c2 a1e3 a1f2 a1f3 a244 a246 a247", "‧﹑¯～⊕⊙￥￠￡"),
        ("Big5", "a1fe a241 a240 a242 a241", "／∕＼﹨∕"),
        ("Big5", "877a 87a1 8e69 a3e1 c6de c6df fedd", "㡵𥣞箸€〃仝砉"),
        ("Big5", "8862 8864 88a3 88a5", "Ê\u0304Ê\u030cê\u0304ê\u030c"),
        ("Big5", "80 41 ff 41 8140 81a1 81", f"{BAD}A{BAD}A{BAD}@{BAD}{BAD}"),
        ("EUC-JP", "a1c1 a1c2 a1dd a1f1 a1f2 a2cc", "～∥－￠￡￢"),
        ("EUC-JP", "7e 8fa2b7 7e a1c1 8eb1 8fb0a1", "~～~～ｱ丂"),
        ("EUC-JP", "ada1 addf f9a1 fcfe", "①㍻纊＂"),
        ("EUC-JP", "8fa1 8f41 a141 8fa141 8ee041 a2af 90 ff", f"{BAD}A{BAD}A{BAD}A{BAD}A{BAD}{BAD}{BAD}"),
        ("EUC-KR", "b0a1 8141 a2e6 80 c97f c9a1 81", f"가갂€{BAD}{BAD}\x7f{BAD}{BAD}"),
        ("GBK", "80 a3a0 a8bc fe59 a6d9 a6f3 ff", f"€\u3000ḿ龴︐︙{BAD}"),
        ("gb18030", "8135f437 8135f438 82359037 8431a439 90308130", "\ue7c7Ṁ龴\uffff𐀀"),
        ("gb18030", "8431a530 e3329a36 813041 81 30", f"{BAD}{BAD}{BAD}0A{BAD}"),
        ("gb18030", "81308141 817f 81ff 8130 81", f"{BAD}0丄{BAD}\x7f{BAD}{BAD}"),
        ("Shift_JIS", "82a0 b1 80 a0 fd ff 8740 ed40 f040 815c", f"あｱ\x80{BAD}{BAD}{BAD}①纊\ue000―"),
        ("Shift_JIS", "8141 81ad 817f 813f 82fd fc4c 81", f"、{BAD}{BAD}\x7f{BAD}?{BAD}{BAD}L{BAD}"),
        ("ISO-2022-JP", "41 1b2442 2422 2d21 1b284a 5c7e 1b2849 31 1b2842 5c", "Aあ①¥‾ｱ\\"),
        ("ISO-2022-JP", "1b2442 1b2842 41", f"{BAD}A"),  # nothing hides between two escapes
        ("ISO-2022-JP", "0e 80 1b 41 1b2441 1b", f"{BAD}{BAD}{BAD}A{BAD}$A{BAD}"),
        ("ISO-2022-JP", "1b2442 24 0a 2422 80 2422 24 1b2842 41", f"{BAD}あ{BAD}あ{BAD}A"),
        ("UTF-16LE", "00d8 4100 3dd800de 00dc 41", f"{BAD}A😀{BAD}{BAD}"),
        ("KOI8-U", "ae be a4", "ўЎє"),
        ("windows-1255", "ca d9", "\u05ba\ufffd"),
    ],
)
def test_sequences(encoding: str, body: str, text: str) -> None:
    assert text == decode(bytes.fromhex(body), encoding)


@given(st.sampled_from(sorted(NAMES)), st.binary(max_size=60))
def test_every_body_is_a_text(encoding: str, body: bytes) -> None:
    text = decode(body, encoding)
    assert not any(0xD800 <= ord(character) < 0xE000 for character in text)


@given(
    st.sampled_from(["Big5", "EUC-JP", "EUC-KR", "GBK", "gb18030", "Shift_JIS", "ISO-2022-JP"]), st.binary(max_size=60)
)
def test_markup_is_never_part_of_an_error(encoding: str, body: bytes) -> None:
    assert decode(body + b"\x1b(B<a>" * (encoding == "ISO-2022-JP") + b"\n<a>", encoding).endswith("<a>")


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("Big5", "═兀€À", "f9f9 a461 a3e1 &192"),
        ("EUC-JP", "～−ｱ①¥‾", "a1c1 a1dd 8eb1 ada1 5c 7e"),
        ("EUC-JP", "丂", "&19970"),  # the second table is for reading only
        ("EUC-KR", "갂€", "8141 a2e6"),
        ("GBK", "€龴\ue81e", "80 fe59 fe59"),
        ("gb18030", "€ḿ\ue7c7𐀀", "a2e3 a8bc 8135f437 90308130"),
        ("Shift_JIS", "ⅰ纊¥¬", "fa40 fa5c 5c &172"),
        ("ISO-2022-JP", "あｱa", "1b2442 2422 2522 1b2842 61"),
        ("ISO-2022-JP", "¥a~あ", "1b284a 5c 61 1b2842 7e 1b2442 2422 1b2842"),
        ("ISO-2022-JP", "あ\x0e", "1b2442 2422 1b2842 &65533"),
    ],
)
def test_written_for_a_query(encoding: str, text: str, written: str) -> None:
    sequences, ampersand, number = written.partition("&")
    expected = bytes.fromhex(sequences) + (f"%26%23{number}%3B".encode() if ampersand else b"")
    assert expected == query_bytes(text, encoding)


@given(st.sampled_from(["Big5", "EUC-JP", "EUC-KR", "GBK", "gb18030", "Shift_JIS"]), st.binary(max_size=60))
def test_what_was_read_can_be_written_and_read_again(encoding: str, body: bytes) -> None:
    text = decode(body, encoding)
    written = query_bytes(text, encoding)
    assert decode(written, encoding) == decode(query_bytes(decode(written, encoding), encoding), encoding)
