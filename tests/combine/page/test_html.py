"""HTML: title, metas, headings, references and visible text of a page, and pages made to hurt."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combine.page import native
from combine.page.html import MOST_TEXT, Document, Reference, is_native, read, read_in_c, read_in_python
from combine.page.native.build import compiled
from combine.page.nesting import bounded
from tests.conformance import CONFORMANCE, needs_conformance

needs_accelerator = pytest.mark.skipif(not is_native(), reason="the accelerator was not built: no C compiler here")


def read_text(html: str) -> Document:
    """By both readers, which must agree."""
    source = bounded(html.encode(), 512)
    found = read_in_python(source)
    if is_native():
        assert found == read_in_c(source)
    return found


TEXTS = [
    ("<p>a <b>b</b>c</p>", "a bc"),
    ("<p>one<p>two", "one\ntwo"),
    ("a<br>b", "a\nb"),
    ("<div>a<div>b</div>c</div>d", "a\nb\nc\nd"),
    ("<b>x<p>y</p></b>z", "x\ny\nz"),
    ("<div>a</div><span>b</span>c", "a\nbc"),
    ("<div>a</div><span></span>c", "a\nc"),
    ("<table><tr><td>1<td>2<tr><th>3</table>", "1 2\n3"),
    ("<ul><li>a<li>b</ul>c", "a\nb\nc"),
    ("a<!-- no -->b", "ab"),
    ("a\n  b\t c\xa0d", "a b c d"),
    ("<script>no()</script>a<style>no{}</style>b", "ab"),
    ("<template><p>no</p></template>a", "a"),
    ("<iframe>no</iframe>a<noembed>no</noembed>", "a"),
    ("<noscript>yes</noscript>", "yes"),
    ("<head><title>no</title></head>a", "a"),
    ("<p hidden>no <b>no</b></p>a", "a"),
    ("<svg><title>no</title><text>a</text></svg>", "a"),
    ("<ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>", "ab"),
    ("&lt;b&gt; &amp; &#x41;", "<b> & A"),
    ("<textarea>a</textarea><select><option>b<option>c</select>", "a\nb\nc"),
    ("a\x00b", "ab"),
    ("", ""),
]


@pytest.mark.parametrize(("html", "text"), TEXTS)
def test_visible_text(html: str, text: str) -> None:
    assert text == read_text(html).text


def test_attributes_without_a_value_are_empty() -> None:
    page = read_text("<base target=t><base href><base href=/c/><meta name=x content><meta name=y content=>")
    assert "" == page.base
    assert [("x", ""), ("y", "")] == page.metas


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> a \n b </title>", "a b"),
        ("<title>a</title><title>b</title>", "a"),
        ("<svg><title>no</title></svg>", None),
        ("<svg><title>no</title></svg><title>a</title>", "a"),
        ("<title>a &amp; <b></title>", "a & <b>"),
        ("x", None),
    ],
)
def test_title(html: str, title: str | None) -> None:
    assert title == read_text(html).title


def test_metas_headings_language_base() -> None:
    page = read_text(
        "<html lang=de-at><base href=/b/><base href=/c/><meta name=' Author ' content=' A  B '>"
        "<meta property=og:title content=T><meta charset=utf-8><meta http-equiv=Refresh content='0;x'><meta name=x>"
        "<h1>One <i>two</i></h1><h3>a<br>b</h3><h2><img></h2>"
    )
    assert "de-at" == page.language
    assert "/b/" == page.base
    assert [("author", "A B"), ("og:title", "T")] == page.metas
    assert [("refresh", "0;x")] == page.equivalents
    assert [(1, "One two"), (3, "a b"), (2, "")] == page.headings


@pytest.mark.parametrize(
    ("html", "references"),
    [
        ("<a href=x rel='Next x'>J<b>ohn</b></a>", [Reference("a", "x", "Next x", "John")]),
        ("<a href=x><div>A</div><p>B</p></a>", [Reference("a", "x", "", "A B")]),
        ("<a name=x>t</a><a>u</a>", []),
        ("<a href=#y>t</a><a href=#z>u</a><area href=#>", [Reference("a", "#y", "", "t"), Reference("area", "#")]),
        ("<a href=x><img src=i alt=' I  j '></a>", [Reference("a", "x", "", "I j"), Reference("img", "i", "", "I j")]),
        ("<img src=i srcset='a 1x, b 2x'>", [Reference("img", name) for name in "iab"]),
        ("<map><area href=x alt=T></map>", [Reference("area", "x", "", "T")]),
        ("<iframe src=x title=T></iframe>", [Reference("iframe", "x", "", "T")]),
        ("<frameset><frame src=x></frameset>", [Reference("frame", "x")]),
        ("<link rel=stylesheet href=x>", [Reference("link", "x", "stylesheet")]),
        ("<script src=x></script><embed src=y>", [Reference("script", "x"), Reference("embed", "y")]),
        ("<video src=v poster=p></video>", [Reference("video", "v"), Reference("video", "p")]),
        ("<audio><source src=s></audio>", [Reference("source", "s")]),
        ("<object data=o><a href=x>t</a></object>", [Reference("object", "o"), Reference("a", "x", "", "t")]),
        ("<svg><a xlink:href=x>t</a></svg>", [Reference("a", "x", "", "t")]),
        ("<p hidden><a href=x>t</a></p>", [Reference("a", "x", "", "t")]),
        ("<noscript><img src=i></noscript>", [Reference("img", "i")]),
        ("<template><a href=x>t</a></template>", []),
    ],
)  # fmt: skip
def test_references(html: str, references: list[Reference]) -> None:
    assert references == read_text(html).references


@pytest.mark.parametrize(
    "part",
    [
        *("<div>", "<b>", "<span>", "<ul><li>", "<table><tr><td>", "<font size=1><p>", "<font size=1><div>", "<svg>"),
        *("<p><b>", "<a href=x><b>", "<h1>", "<button>", "<select>", "<!--", "<script>", "</div>", "<p>", "<br>"),
    ],
)
def test_deep_pages_are_read_in_a_second(part: str) -> None:
    started = time.process_time()
    page = read((part * 100_000).encode() + b"end", 512)
    # A second on a machine of its own; CPU time still grows with what else runs.
    assert 3.0 > time.process_time() - started
    assert page.text.endswith("end") or part in ("<!--", "<script>")


def test_a_bound_on_depth_loses_no_text_and_no_link() -> None:
    # Beyond the depth blocks still break lines, and references are still found.
    source = "".join(f"<div>{n}<a href=/{n}>l{n}</a></div>" if n % 2 else f"<div>{n}" for n in range(4000))
    page = read(source.encode(), 512)
    assert 2000 == len(page.references)
    assert [str(n) if n % 2 == 0 else f"{n}l{n}" for n in range(4000)] == page.text.split("\n")


def test_many_unclosed_paragraphs_are_left_alone() -> None:
    source = "".join(f"<p>{n}<li>{n}<br>" for n in range(5000))
    assert [str(n // 2) for n in range(10_000)] == read(source.encode(), 512).text.split("\n")


#: Ends of a sentence that the two readers could part in another way.
PIECES = [
    *("<p>", "</p>", "<div hidden>", "</div>", "<a href=x>", "</a>", "<a>", "<h2>", "</h2>", "<td>", "<table>", "<br>"),
    *("<title>", "</title>", "<svg>", "</svg>", "<script>", "</script>", "<template>", "</template>", "<base href=b>"),
    *("<img alt=' i  j ' src=s>", "<img srcset='a 1x, b'>", "<meta name=N content=' c  d '>", "<iframe src=f>"),
    *(
        "a",
        "b",
        " ",
        "  ",
        "\n",
        "\t",
        "\x0b",
        "\x1c",
        "\x85",
        "\xa0",
        "\u1680",
        "\u2003",
        "\u2028",
        "\u205f",
        "\u3000",
    ),
    *("é", "€", "\u2010", "\u3001", "\U0001f600", "\x00", "&nbsp;", "&#0;", "&#x2003;", "<a href>", "<a xlink:href=y>"),
    *("<html lang=de>", "<html xml:lang=fr>", "<meta http-equiv=Refresh content=0>", "<a href='#f'>", "<option>"),
]


@needs_accelerator
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_both_readers_read_the_same(html: str) -> None:
    read_text(html)


@needs_accelerator
@needs_conformance
def test_both_readers_read_the_same_of_what_others_wrote() -> None:
    sources = [path.read_bytes() for path in sorted((CONFORMANCE / "charset" / "files").rglob("*")) if path.is_file()]
    for path in sorted(CONFORMANCE.rglob("*.dat")):
        sources += [case.partition(b"\n#errors")[0] for case in path.read_bytes().split(b"#data\n")[1:]]
    assert 1000 < len(sources)
    for source in sources:
        text = bounded(source.decode("utf-8", "replace").encode(), 512)
        assert read_in_python(text) == read_in_c(text)


SPACED = st.lists(
    st.sampled_from(["word", "w" * 15, "w" * 63, "é€", "\xa0", "\u2002", "\v", " ", "  ", "\n", "\x1f", "<p>"])
)


@needs_accelerator
@given(SPACED.map("".join))
def test_words_are_the_same_wherever_a_block_of_bytes_ends(text: str) -> None:
    read_text(f"<p>{text}")


def test_a_line_does_not_know_where_the_one_before_it_had_a_blank() -> None:
    # A rare blank stays in a line, unless there are two usual ones side by side in that line.
    assert "ab c\n\x1fxx y" == read_text("ab c<p>\x1fxx y").text


NESTING = [
    "<b>" * 1999 + "x",  # so few do no harm
    "<p>x</p>" * 2000,
    "<p>" * 2100,
    "<i><b>" * 600 + "</b></i>" * 600,
    "<p>x</p>" * 5000 + "<div>" * 400,  # fewer than 512, but more than 2,000,000 copies among so many tags
    "<br>" * 100 + "<p>x</p>" * 2000 + "<",
]


@needs_accelerator
@pytest.mark.parametrize("source", NESTING)
@pytest.mark.parametrize("depth", [1, 32, 512])
def test_both_readers_bound_the_same_pages(source: str, depth: int) -> None:
    page = source.encode()
    assert (bounded(page, depth) is not page) == (read_in_c(page, depth) is None)
    assert read_in_python(bounded(page, depth)) == read(page, depth)


def test_an_accelerator_that_does_not_fit_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "none.so")
    assert native.reader({}) is None
    monkeypatch.undo()
    monkeypatch.setattr(native, "FUNCTIONS", ("lxb_of_another_version",))
    assert native.reader({}) is None


@needs_accelerator
def test_an_accelerator_of_another_source_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "reader.c"
    source.write_bytes(native.SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(native, "SOURCE", source)
    assert native.reader({}) is None
    assert compiled(source, tmp_path / "reader.so")
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "reader.so")
    assert native.reader({}) is not None


@pytest.mark.parametrize("content", [b"", b"no library\n", b"\x7fELF" + bytes(60)])
def test_what_is_no_library_is_left(content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "reader.so"
    library.write_bytes(content)
    monkeypatch.setattr(native, "LIBRARY", library)
    assert native.reader({}) is None


LONG = [
    ("y" * 70_000, "y" * MOST_TEXT),
    ("y " * 40_000, ("y " * (MOST_TEXT // 2)).strip()),
    ("xy" + "€" * 30_000, "xy" + "€" * 21_844),  # 65,534 bytes, and half of one more
    ("x" + "<b>\U0001f600</b>" * 17_000, "x" + "\U0001f600" * 16_383),
    ("<b>x</b>" + " " * 70_000 + "late", "x"),
    ("<p></p>" * 100 + "<b>y</b>" * 70_000, "y" * MOST_TEXT),
    ("<div>x</div>" * 40_000, ("x " * (MOST_TEXT // 3 + 1)).strip()),
]


@pytest.mark.parametrize(("inside", "text"), LONG)
def test_of_a_very_long_text_a_heading_has_the_beginning(inside: str, text: str) -> None:
    assert [(1, text)] == read_text(f"<h1>{inside}</h1>").headings
    assert [Reference("a", "x", "", text)] == read_text(f"<a href=x>{inside}</a>").references


def test_headings_inside_headings_take_little_memory() -> None:
    found = read_text("<h1><div>" * 200 + "y" * 1_000_000)
    assert 200 == len(found.headings)
    assert 200 * MOST_TEXT == sum(len(text) for _, text in found.headings)
    assert 1_000_000 == len(found.text)


def test_without_a_compiler_nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("no C at all")
    assert not compiled(bad, tmp_path / "bad.so")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert not compiled(bad, tmp_path / "bad.so")
    assert [bad] == list(tmp_path.iterdir())
