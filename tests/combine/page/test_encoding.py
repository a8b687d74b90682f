"""Bytes to text: the prescan vectors, byte order marks, what is declared and what is not, real files."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.page.encoding import Text, to_text
from combine.page.labels import NAMES, decode, encoding_for, query_bytes
from tests.conformance import CONFORMANCE, needs_conformance

CASES = [
    (b"\xef\xbb\xbf\xc3\xa9", "latin1", True, Text("é", "UTF-8")),
    (b"\xff\xfea\x00", "", True, Text("a", "UTF-16LE")),
    (b"\xfe\xff\x00a", "utf-8", True, Text("a", "UTF-16BE")),
    (b"\xe9", "iso-8859-1", True, Text("é", "windows-1252")),
    (b"\x81", "windows-1252", True, Text("\x81", "windows-1252")),
    (b"\xe9", " Latin1 ", True, Text("é", "windows-1252")),
    (b"plain", "", True, Text("plain", "windows-1252")),
    (b"<?xml version='1.0'?><a/>", "", False, Text("<?xml version='1.0'?><a/>", "UTF-8")),
    (b"<?xml version='1.0'?><a/>", "", True, Text("<?xml version='1.0'?><a/>", "windows-1252")),
    (b"plain", "nonsense", True, Text("plain", "windows-1252")),
    ("é".encode(), "", True, Text("é", "UTF-8")),
    ("é".encode()[:1] + b" <a", "utf-8", True, Text("\ufffd <a", "UTF-8")),
    (b"<meta charset=koi8-r>\xc1", "", True, Text("<meta charset=koi8-r>а", "KOI8-R")),
    (b"<meta charset=koi8-r>\xc1", "utf-8", True, Text("<meta charset=koi8-r>\ufffd", "UTF-8")),
    (b"<meta charset=utf-16>x", "", True, Text("<meta charset=utf-16>x", "UTF-8")),
    (b"<?xml encoding='koi8-r'?>\xc1", "", False, Text("<?xml encoding='koi8-r'?>а", "KOI8-R")),
    (b"\x82\xa0", "shift_jis", False, Text("あ", "Shift_JIS")),
    (b"\xb0\xa1", "euc-kr", False, Text("가", "EUC-KR")),
    (b"\xa4\xa4", "gb2312", False, Text("い", "GBK")),
    (b"ab\x80", "x-user-defined", False, Text("ab\uf780", "x-user-defined")),
    (b"anything", "hz-gb-2312", False, Text("\ufffd", "replacement")),
    (b"", "", True, Text("", "windows-1252")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "charset", "is_html", "expected"), CASES)
def test_encoding(body: bytes, charset: str, is_html: bool, expected: Text) -> None:
    assert expected == to_text(body, charset, is_html)


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CONFORMANCE / "charset" / name).read_text())
    return found


@needs_conformance
def test_prescan_vectors() -> None:
    wrong = [
        (row["data_preview"], row["encoding"], found)
        for row in rows("html5lib_encoding_cases.json")
        # The scripted case writes its declaration by a script, and no script is run here.
        if not row["scripted"]
        and (found := to_text(base64.b64decode(row["data_b64"]), "", True).encoding).lower() != row["encoding"].lower()
    ]
    assert [] == wrong


@needs_conformance
def test_labels_are_the_standards() -> None:
    for group in rows("whatwg_encodings.json"):
        for encoding in group["encodings"]:
            for label in encoding["labels"]:
                assert encoding["name"] == encoding_for(label)
                assert encoding["name"] == encoding_for(f" {label.upper()}\n")


#: Labels of the files in Python's names; languages after the label are left out.
CODECS = {"CP949": "cp949", "EUC-KR": "cp949", "GB2312": "gb18030", "SHIFT_JIS": "cp932", "TIS-620": "cp874"}
LANGUAGES = (
    *("arabic", "bulgarian", "croatian", "czech", "greek", "hebrew", "hungarian", "polish", "romanian", "russian"),
    *("slovak", "slovene", "turkish"),
)
UNREAD = {
    "chardet/EUC-TW/_ude_euc-tw1.txt": "no browser and no codec of Python reads EUC-TW",
    "chardet/UTF-32/bom-utf-32-le.srt": "its mark starts as that of UTF-16, and so the standard reads it",
}


def as_labelled(body: bytes, label: str) -> str:
    """What the file says by its label: by the standard where its common characters are not those of Python's codec."""
    if label in ("Big5", "EUC-JP"):
        return decode(body, label)
    return body.decode(CODECS.get(label, label), "replace")


@needs_conformance
def test_share_of_real_files() -> None:
    right, wrong = 0, []
    for row in rows("files_manifest.json"):
        body = (CONFORMANCE / "charset" / "files" / row["file"]).read_bytes()
        label = row["label"]
        for language in LANGUAGES:
            label = label.removesuffix("-" + language)
        found = to_text(body, "", row["file"].endswith("html")).text.lstrip("\ufeff")
        try:
            expected = as_labelled(body, label).lstrip("\ufeff")
        except LookupError:
            expected = ""
        differing = sum(one != other for one, other in zip(expected, found, strict=False))
        # One character in a hundred may differ: vendors' tables disagree about dashes and the like.
        if expected and abs(len(expected) - len(found)) <= len(expected) / 100 and differing <= len(expected) / 100:
            right += 1
        else:
            wrong.append(row["file"])
    assert sorted(UNREAD) == sorted(wrong)
    assert 420 == right


@given(st.binary(max_size=300), st.sampled_from(["", "utf-8", "utf-16le", "shift_jis", "nonsense", "gb18030"]))
def test_any_bytes_give_a_text_without_surrogates(body: bytes, charset: str) -> None:
    text = to_text(body, charset, True).text
    assert text.encode("utf-8").decode("utf-8") == text


def test_what_is_detected_has_a_name_of_the_web() -> None:
    text = "日本語のテキストです。これは文字コードの判定を試すための文章で、十分に長いものです。" * 3
    assert Text(text, "Shift_JIS") == to_text(text.encode("shift_jis"), "", False)


#: Real texts were found in these, which the standard does not have; nothing but their own bytes may name them.
BEYOND = {"IBM855", "Johab", "UTF-32", "UTF-32BE", "UTF-32LE", "ISO-2022-KR", "HZ-GB-2312"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\xed\xa0\x80", None),
        ("здравствуй, мир ".encode("cp855"), None),
        ("Привет, это обычный русский текст для проверки. ".encode("utf-32-le"), "UTF-32LE"),
        ("Привет, это обычный русский текст для проверки. ".encode("utf-16-le"), "UTF-16LE"),
        (("Привет, это обычный русский текст, каких много, " * 9).encode("cp855"), "IBM855"),
        (("Привет, это обычный русский текст, каких много, " * 9).encode("mac_cyrillic"), "x-mac-cyrillic"),
        (("한국어 문장을 길게 써서 판정을 시험합니다. " * 9).encode("iso2022_kr"), "ISO-2022-KR"),
        (("Das größte Übel wäre ein müdes Gemüse. " * 9).encode("cp850"), None),
        ("Das größte Übel wäre ein müdes Gemüse. ".encode("cp500"), None),
        (b"\x00\xff" * 40, None),
    ],
)
def test_undeclared(body: bytes, expected: str | None) -> None:
    encoding = to_text(body, "", True).encoding
    assert expected == encoding if expected else encoding in NAMES


@given(st.binary(max_size=300) | st.text().map(lambda text: text.encode("utf-8", "replace")[1:]))
def test_what_no_bytes_prove_has_a_name_of_the_standard(body: bytes) -> None:
    assert to_text(body, "", True).encoding in NAMES


@given(st.sampled_from(sorted(BEYOND)), st.text(alphabet="aéя한&"))
def test_queries_of_what_is_beyond_the_standard_are_written_in_utf_8(encoding: str, text: str) -> None:
    assert text.encode() == query_bytes(text, encoding)
