"""What is read by expressions, beside the standards' own steps, taken one by one: on random texts both must agree."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest

from combine.page.encoding import content_charset, prescan
from combine.page.labels import encoding_for
from combine.page.references import candidates, link_header, refresh

SPACE = "\t\n\f\r "
ROUNDS = 3000


def texts(pieces: Sequence[str], most: int) -> list[str]:
    chance = random.Random(9309)
    return ["".join(chance.choices(pieces, k=chance.randrange(most))) for _ in range(ROUNDS)]


class Cursor:
    """A position in a text; beyond its end there is "", which is in no set of characters here."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    @property
    def sign(self) -> str:
        return self.text[self.at : self.at + 1]

    def starts(self, *words: str) -> bool:
        return self.text.startswith(words, self.at)

    def take(self, signs: str) -> str:
        """The run of these characters that stands here."""
        start = self.at
        while self.sign and self.sign in signs:
            self.at += 1
        return self.text[start : self.at]

    def take_until(self, signs: str) -> str:
        start = self.at
        while self.sign and self.sign not in signs:
            self.at += 1
        return self.text[start : self.at]

    def take_if(self, signs: str) -> str:
        found = self.sign
        if not found or found not in signs:
            return ""
        self.at += 1
        return found

    def take_past(self, sign: str) -> str | None:
        """What stands before a sign, which is passed; None where there is none."""
        end = self.text.find(sign, self.at)
        if end < 0:
            return None
        start, self.at = self.at, end + 1
        return self.text[start:end]


# HTML 4.2.5.3, "shared declarative refresh steps" --------------------------------------------------------------------


def refresh_by_steps(text: str) -> tuple[int, str] | None:
    here = Cursor(text)
    here.take(SPACE)
    digits = here.take("0123456789")
    if not digits and here.sign != ".":
        return None
    here.take("0123456789.")
    if here.sign and here.sign not in f";,{SPACE}":
        return None
    here.take(SPACE)
    here.take_if(";,")
    here.take(SPACE)
    url = here.text[here.at :]
    is_named = bool(here.take_if("Uu"))
    if is_named:
        for signs in ("Rr", "Ll"):
            if not here.take_if(signs):
                return int(digits or "0"), url
        here.take(SPACE)
        if not here.take_if("="):
            return int(digits or "0"), url
        here.take(SPACE)
    quote = here.take_if("'\"")
    url = here.text[here.at :]
    return int(digits or "0"), url.partition(quote)[0] if quote else url


@pytest.mark.parametrize("start", ["", "5", "0;", ".5,"])
def test_refresh(start: str) -> None:
    for text in texts([*"0125.;, \t\n\fuUrRlL=='\"x/\xa0٥"], 12):
        found, expected = (each and (each[0], re.sub("[\t\n\r]", "", each[1]).strip(" \f"))
                           for each in (refresh(start + text), refresh_by_steps(start + text)))  # fmt: skip
        assert expected == found, start + text


# HTML 4.8.4.2.1, "parse a srcset attribute" --------------------------------------------------------------------------


def candidates_by_steps(text: str) -> list[str]:
    here = Cursor(text)
    found: list[str] = []
    while True:
        here.take(f"{SPACE},")
        if not here.sign:
            return found
        url = here.take_until(SPACE)
        descriptors: list[str] = [] if url.endswith(",") else descriptors_by_steps(here)
        if goes_together(descriptors) and url.rstrip(","):
            found.append(url.rstrip(","))


def descriptors_by_steps(here: Cursor) -> list[str]:
    found = [""]
    while here.sign:
        if here.take(SPACE):
            found.append("")
        elif here.take_if(","):
            break
        elif here.starts("("):
            found[-1] += here.take_until(")") + here.take_if(")")
        else:
            found[-1] += here.take_if(here.sign)
    return [word for word in found if word]


def goes_together(descriptors: list[str]) -> bool:
    numbers: dict[str, float] = {}
    for word in descriptors:
        form = r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?" if word[-1] == "x" else "[0-9]+"
        if word[-1] in numbers or word[-1] not in "wxh" or not re.fullmatch(form, word[:-1]):
            return False
        numbers[word[-1]] = float(word[:-1])
    is_large_enough = numbers.get("x", 0.0) >= 0 and numbers.get("w", 1.0) > 0 and numbers.get("h", 1.0) > 0
    return is_large_enough and not ("x" in numbers and len(numbers) > 1) and ("h" not in numbers or "w" in numbers)


def test_srcset() -> None:
    pieces = "a|b.png| | |,|,|1x|2x|100w|50h|(|)|0w|-1x|-0x|.5x|1e2x|+1x|1.x|\n|x|1X|a,b|(,)|data:,x".split("|")
    for text in texts(pieces, 10):
        assert candidates_by_steps(text) == candidates(text), text


# RFC 8288 B.2 and B.3, on fields that keep to the grammar ------------------------------------------------------------


def links_by_steps(text: str) -> list[tuple[str, str]]:
    here = Cursor(text)
    found: list[tuple[str, str]] = []
    while here.take(" \t,") or here.sign == "<":
        if not here.take_if("<"):
            break
        target, relations = here.take_past(">"), None
        while here.take(" \t") or here.sign:
            if not here.take(";"):
                break
            here.take(" \t")
            name = here.take_until(" \t=;,").lower()
            here.take(" \t")
            value = parameter_by_steps(here) if here.take_if("=") else ""
            relations = value if name == "rel" and relations is None else relations
        found += [((target or "").strip(), word) for word in (relations or "").split() or [""]]
    return found


def parameter_by_steps(here: Cursor) -> str:
    here.take(" \t")
    if not here.take_if('"'):
        return here.take_until(";, \t")
    value = ""
    while here.sign not in ('"', ""):
        here.take_if("\\")
        value += here.take_if(here.sign)
    here.take_if('"')
    return value


def test_link_header() -> None:
    chance = random.Random(8288)
    blank = ["", "", " ", "\t", " \t "]
    names = ["rel", "REL", "title", "anchor", "rev", "x*"]
    values = ["", "=next", "=a.b", '="a b"', '="a,<b>;rel=q"', '="a\\"b"', '=""', '= "q"', ' ="q"', "= t"]
    for _ in range(ROUNDS):
        text = ""
        for _ in range(chance.randrange(1, 4)):
            text += ("," if text else "") + chance.choice(blank)
            text += chance.choice(["<x>", "<>", "<a,b>", "<a;b>", '<a"b>', "<http://e/?q=<>"])
            for _ in range(chance.randrange(4)):
                text += chance.choice(blank) + chance.choice([";", ";;"]) + chance.choice(blank)
                text += chance.choice(names) + chance.choice(values)
            text += chance.choice(blank)
        assert links_by_steps(text) == link_header(text), text


# HTML 13.2.3.2, "prescan a byte stream to determine its encoding", and what it asks for ------------------------------


def prescan_by_steps(text: str) -> str:
    here = Cursor(text)
    try:
        while here.sign:
            if here.starts("<!--"):
                here.at = text.index("-->", here.at + 2) + 2
            elif re.match("<meta[\t\n\f\r /]", text[here.at :], re.IGNORECASE):
                here.at += 5
                if found := declared_by_steps(here):
                    return found
            elif re.match("</?[a-z]", text[here.at :], re.IGNORECASE):
                here.take_until(f"{SPACE}>")
                while attribute_by_steps(here):
                    pass
            elif here.starts("<!", "</", "<?"):
                here.at = text.index(">", here.at)
            here.at += 1
    except (ValueError, EOFError):
        pass
    return ""


def declared_by_steps(here: Cursor) -> str:
    names: set[str] = set()
    is_pragma, needs_pragma, encoding = False, None, None
    while attribute := attribute_by_steps(here):
        name, value = attribute
        if name in names:
            continue
        names.add(name)
        if name == "http-equiv":
            is_pragma = value == "content-type"
        elif name == "content" and encoding is None and (said := extracted_by_steps(value)):
            encoding, needs_pragma = said, True
        elif name == "charset":
            encoding, needs_pragma = encoding_for(value), False
    if needs_pragma is None or (needs_pragma and not is_pragma) or not encoding:
        return ""
    return {"UTF-16BE": "UTF-8", "UTF-16LE": "UTF-8", "x-user-defined": "windows-1252"}.get(encoding, encoding)


def attribute_by_steps(here: Cursor) -> tuple[str, str] | None:
    here.take(f"{SPACE}/")
    if _there(here) == ">":
        return None
    name = here.take_if(here.sign) + here.take_until(f"{SPACE}/>=")
    _there(here)
    here.take(SPACE)
    if _there(here) != "=":
        return name.lower(), ""
    here.take_if("=")
    here.take(SPACE)
    if _there(here) in "'\"":
        value = here.take_past(here.take_if("'\""))
        if value is None:
            raise EOFError
        return name.lower(), value.lower()
    value = here.take_until(f"{SPACE}>")
    _there(here)
    return name.lower(), value.lower()


def _there(here: Cursor) -> str:
    if not here.sign:
        raise EOFError
    return here.sign


def extracted_by_steps(text: str) -> str:
    here = Cursor(text.lower())
    while (start := here.text.find("charset", here.at)) >= 0:
        here.at = start + len("charset")
        here.take(SPACE)
        if here.take_if("="):
            here.take(SPACE)
            quote = here.take_if("'\"")
            return encoding_for((here.take_past(quote) if quote else here.take_until(f"{SPACE};")) or "")
    return ""


def test_prescan() -> None:
    pieces = (
        "<meta |<META/|<meta|charset|=|=|koi8-r|utf-8|utf-16|bogus|\"|'| |>|>|<!--|-->|<!|<?|</|<a|</a |"
        'http-equiv=content-type|content=|"text/html; charset=koi8-r"|/|name=x|\n|;|charset=koi8-r|content="|<|--'
    ).split("|")
    for text in (*texts(pieces, 16), *(f"<meta {text}" for text in texts(pieces, 16))):
        assert prescan_by_steps(text) == prescan(text.encode()), text


def test_the_charset_of_a_content_type_in_a_meta_element() -> None:
    for text in texts("charset|CHARSET|=|=|;| |\"|'|koi8-r|utf-8|x|text/html|\n".split("|"), 12):
        assert extracted_by_steps(text) == content_charset(text), text
