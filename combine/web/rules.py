"""Read a robots.txt as RFC 9309 does, forgiving what Google's parser forgives, and match URLs against it.

Theory of operation. The file is read once for one product token: the rules of all groups that name it are merged, else
those of `*`. Each pattern and each path is brought to one spelling (non-ASCII percent-encoded, needless encoding
undone, hexadecimal digits in upper case), so that matching compares characters only. Rules are sorted by length,
longest first and Allow before Disallow, so the first that matches decides. A pattern is cut at its `*` and its pieces
are looked for from left to right, which takes time in proportion to the path for whatever pattern a site may write.

Lenient as Google's: common misspellings, a missing colon, any kind of line end, a byte order mark or part of one.
Nothing raises. Why this is own code and not a library is told in docs/decisions (robots parser).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

#: Bytes read of a robots.txt; RFC 9309 2.5 asks for at least 500 KiB.
LIMIT_BYTES = 512 * 1024

#: Characters read of one line, the limit of Google's parser: eight times the longest URL of common browsers.
LINE_CHARACTERS = 2083 * 8 - 1

#: Seconds; a longer crawl-delay says "never" in other words, and a year says it too.
LONGEST_DELAY_S = 366 * 86_400.0

_END_OF_LINE = re.compile("\r\n|\n|\r")
_BLANK = " \t\v\f\r\n"
#: Other blanks and zero-width marks, in UTF-8: editors leave them at the ends of lines, where nobody sees them.
_WIDE_BLANK = r"(?:\xc2\xa0|\xe2\x80[\x80-\x8d\xa8\xa9\xaf]|\xe2\x81\xa0|\xe3\x80\x80|\xef\xbb\xbf)"
_WIDE_BLANKS = re.compile(rf"\A(?:{_WIDE_BLANK}|[{_BLANK}])+|(?:{_WIDE_BLANK}|[{_BLANK}])+\Z")
_TOKEN = re.compile("[A-Za-z_-]*")
_NUMBER = re.compile(r"(?=[.,]?[0-9])([0-9]{0,12})(?:[.,]([0-9]{1,9}))?")
#: An encoded character, or one that no URI holds (RFC 3986, 2).
_WRITTEN = re.compile(r'%[0-9A-Fa-f]{2}|[^\x21-\x7e]|["<>\\^`{|}]')
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
#: What delimits nothing in a query (RFC 3986, 3.4), as in the example of RFC 9309, 2.2.2: `?baz=https://foo.bar`.
_PLAIN_IN_QUERY = _UNRESERVED | frozenset(":/?@")
_SCHEME_FOR_KEY = re.compile(r"(\S+)\s+(https?)", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

#: How a key may begin, in lower case: what Google's parser forgives, and crawler-commons', longer spellings first.
_KEYS = (
    ("user-agent", "agent"),
    ("useragent", "agent"),
    ("user agent", "agent"),
    ("user_agent", "agent"),
    ("useg-agent", "agent"),
    ("allow", "allow"),
    ("disallow", "disallow"),
    ("dissallow", "disallow"),
    ("dissalow", "disallow"),
    ("disalow", "disallow"),
    ("diaslow", "disallow"),
    ("diasllow", "disallow"),
    ("disallaw", "disallow"),
    ("desallow", "disallow"),
    ("dis-allow", "disallow"),
    ("sitemap", "sitemap"),
    ("site-map", "sitemap"),
    ("crawl-delay", "delay"),
    ("crawldelay", "delay"),
    ("content-signal", "signal"),
    ("content-usage", "usage"),
    ("license", "license"),
)

#: Lines about the use of pages, by the names under which records keep them.
SIGNALS = {"signal": "content-signal", "usage": "content-usage", "license": "license"}


class _Rule(NamedTuple):
    length: int
    allow: bool
    pieces: tuple[str, ...]  # what stands between the `*`
    to_end: bool  # a `$` ends the pattern


class _Signal(NamedTuple):
    name: str
    value: str  # word for word, its path included
    rule: _Rule | None  # for which paths it is said; None: for all


@dataclass(frozen=True, slots=True)
class Rules:
    """What one robots.txt tells one agent. Invariant: `_rules` are in the order in which the first match decides."""

    crawl_delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    _signals: tuple[_Signal, ...] = ()
    _rules: tuple[_Rule, ...] = ()
    _beginnings: tuple[str, ...] = ()  # of all patterns: one look tells that none of them can match

    @classmethod
    def parse(cls, body: bytes, agent: str) -> Rules:
        """Read the file for the product token `agent`; bytes that say nothing readable allow everything."""
        reading = _Reading(agent)
        for line in _lines(body):
            reading.line(line)
        group = reading.named if reading.is_named else reading.others
        rules = sorted(set(group.rules), key=lambda rule: (-rule.length, not rule.allow))
        beginnings = tuple(dict.fromkeys(rule.pieces[0] for rule in rules))
        signals = tuple(dict.fromkeys([*reading.signals, *group.signals]))
        sitemaps = tuple(dict.fromkeys(reading.sitemaps))
        return cls(max(group.delays, default=None), sitemaps, signals, tuple(rules), beginnings)

    def allows(self, url: str) -> bool:
        """Say whether the URL may be asked for; robots.txt itself always may."""
        path = path_of(url)
        if path == "/robots.txt":
            return True
        path = _comparable(path)
        if not path.startswith(self._beginnings):
            return True
        for _, allow, pieces, to_end in self._rules:
            if path.startswith(pieces[0]) and _matches(path, pieces, to_end):
                return allow
        return True

    @property
    def has_signals_by_path(self) -> bool:
        """Whether what is said about the use of a page depends on which page it is."""
        return any(signal.rule is not None for signal in self._signals)

    def signals_of(self, url: str) -> tuple[tuple[str, str], ...]:
        """What is said about the use of a page, as name and value, word for word.

        Of the lines of one name those with the longest path that matches count (draft-ietf-aipref-attach), of equally
        long ones all; a line without a path is for every page, and shorter than any path.
        """
        if not self._signals:
            return ()
        path = _comparable(path_of(url))
        said = [signal for signal in self._signals if signal.rule is None or _covers(signal.rule, path)]
        longest: dict[str, int] = {}
        for name, _, rule in said:
            longest[name] = max(longest.get(name, 0), rule.length if rule else 0)
        return tuple((name, value) for name, value, rule in said if (rule.length if rule else 0) == longest[name])


class _Group:
    """The rules gathered for one kind of agent."""

    def __init__(self) -> None:
        self.rules: list[_Rule] = []
        self.delays: list[float] = []
        self.signals: list[_Signal] = []


class _Reading:
    """The state between two lines: for whom the lines that follow are."""

    def __init__(self, agent: str) -> None:
        self.named = _Group()
        self.others = _Group()
        self.sitemaps: list[str] = []
        self.signals: list[_Signal] = []  # outside all groups, and licenses, which are for all
        self._has_agent = False
        self.is_named = False
        # Lines are bytes, a character each.
        self._agent = agent.encode("utf-8", "replace").decode("latin-1").casefold()
        self._groups: list[_Group] = []
        self._delayed: list[_Group] = []  # those of the agents named since the last crawl-delay
        self._has_delay = False
        self._has_rules = False  # the group has begun its rules, so that the next user-agent line begins another

    def line(self, line: str) -> None:
        key, value = _key_and_value(line)
        if key == "agent":
            self._take_agent(value)
        elif key == "sitemap":
            self.sitemaps.append(_text(value))
        elif key in SIGNALS:
            self._take_signal(SIGNALS[key], value)
        elif key == "delay":
            self._take_delay(value)
        elif key in ("allow", "disallow"):
            # Rules before any user-agent line, and those of other agents, are nobody's; but they end a list of agents.
            self._has_rules = True
            for rule in _rules_of(value, key == "allow") if self._groups else ():
                for group in self._groups:
                    group.rules.append(rule)

    def _take_delay(self, value: str) -> None:
        # It is no rule, and so ends no list of agents; but it tells those before it, and not those after it, to wait.
        self._has_delay = True
        if (seconds := _seconds(value)) is not None:
            for group in self._delayed:
                group.delays.append(seconds)

    def _take_signal(self, name: str, value: str) -> None:
        pattern, *usage = value.split(maxsplit=1) if value.startswith(("/", "*")) and name != "license" else ("",)
        rule = _rule(_spelled(pattern), True) if usage else None
        signal = _Signal(name, _text(value), rule)
        if name == "license" or not self._has_agent:
            self.signals.append(signal)
        for group in self._groups if name != "license" else ():
            group.signals.append(signal)

    def _take_agent(self, value: str) -> None:
        self._has_agent = True
        if self._has_rules or self._has_delay:
            self._delayed = []
            self._has_delay = False
        if self._has_rules:
            self._groups = []
            self._has_rules = False
        if value == "*" or (value[:1] == "*" and value[1] in _BLANK):
            group = self.others
        elif self._agent and _names(value, self._agent):
            group = self.named
            self.is_named = True
        else:
            return
        for groups in (self._groups, self._delayed):
            if group not in groups:
                groups.append(group)


def path_of(url: str) -> str:
    """The path and query of a URL, from its first slash, without the fragment; `/` where it has none."""
    start = 2 if url.startswith("//") else 0
    scheme_end = url.find("://", start)
    first = _first_of(url, start)
    if scheme_end >= 0 and not 0 <= first < scheme_end:
        first = _first_of(url, scheme_end + 3)
    fragment = url.find("#", start)
    if first < 0 or 0 <= fragment < first:
        return "/"
    path = url[first : fragment if fragment >= 0 else len(url)]
    return path if path.startswith("/") else "/" + path


def _first_of(url: str, start: int) -> int:
    places = [place for place in (url.find(sign, start) for sign in "/?;") if place >= 0]
    return min(places, default=-1)


def _lines(body: bytes) -> list[str]:
    cut = len(body) > LIMIT_BYTES
    body = body[:LIMIT_BYTES]
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            body = body[2:].decode(encoding, "ignore").encode("utf-8")
            break
    else:
        # A mark of which only the first bytes came through is skipped too.
        for byte in codecs.BOM_UTF8:
            if body[:1] != bytes([byte]):
                break
            body = body[1:]
    lines = _END_OF_LINE.split(body.decode("latin-1"))  # each character is a byte, and non-ASCII ones will be encoded
    if cut:
        lines.pop()  # half a rule could forbid, or allow, everything
    return lines


def _key_and_value(line: str) -> tuple[str, str]:
    line = line[:LINE_CHARACTERS].partition("#")[0].strip(_BLANK)
    name, colon, value = line.partition(":")
    if not colon:
        # Some people forget the colon; with exactly two words on a line it is plain what they meant.
        words = line.split()
        if len(words) == 3 and [word.lower() for word in words[:2]] == ["user", "agent"]:
            words[:2] = ["user-agent"]
        if len(words) != 2:
            return "", ""
        name, value = words
    elif value.startswith("//") and (match := _SCHEME_FOR_KEY.fullmatch(name)):
        # The colon that is there is the one of a URL.
        name, value = match[1], f"{match[2]}:{value}"
    value = value.strip(_BLANK) if value.isascii() else _WIDE_BLANKS.sub("", value)
    return _key_of(name.strip(_BLANK)), value


@lru_cache(maxsize=1024)
def _key_of(name: str) -> str:
    name = name.lower()
    return next((key for spelling, key in _KEYS if name.startswith(spelling)), "")


def _text(value: str) -> str:
    """The text that the bytes of a value are."""
    return value if value.isascii() else value.encode("latin-1", "replace").decode("utf-8", "replace")


def _token(value: str) -> str:
    match = _TOKEN.match(value)
    return match[0] if match else ""


def _names(value: str, agent: str) -> bool:
    """Whether a user-agent line is about the agent, which is in lower case."""
    if _TOKEN.fullmatch(agent):
        return _token(value).casefold() == agent
    # A name with a digit, say, is no product token (RFC 9309, 2.2.1): its beginning would be somebody else. One of
    # several words is nobody's, since what follows the first word of a line is not looked at.
    value = value.casefold()
    following = value[len(agent) : len(agent) + 1]
    return value.startswith(agent) and " " not in agent and not (following.isalnum() or following in ("_", "-"))


def _seconds(value: str) -> float | None:
    match = _NUMBER.match(value)
    if not match:
        return None
    return min(float(f"{match[1] or 0}.{match[2] or 0}"), LONGEST_DELAY_S)


def _rules_of(value: str, allow: bool) -> list[_Rule]:
    if not value:
        return []  # an empty pattern matches nothing
    value = _spelled(value)
    rules = [_rule(value, allow)]
    # Google's: to allow a directory's index page is to allow the directory.
    directory, slash, name = value.rpartition("/")
    if allow and slash and name.startswith("index.htm"):
        rules.append(_rule(directory + "/$", allow))
    return rules


def _rule(pattern: str, allow: bool) -> _Rule:
    to_end = pattern.endswith("$")
    # A `$` before the end is a character like any other, and so spelled as in the paths.
    pieces = (pattern[:-1] if to_end else pattern).replace("$", "%24").split("*")
    return _Rule(len(pattern), allow, tuple(pieces), to_end)


def _comparable(path: str) -> str:
    """A path of a URL, spelled as the patterns are."""
    if not path.isascii():
        path = path.encode("utf-8", "replace").decode("latin-1")  # a character is a byte, as in the rules
    return _spelled(path).replace("*", "%2A").replace("$", "%24")


def _covers(rule: _Rule, path: str) -> bool:
    return path.startswith(rule.pieces[0]) and _matches(path, rule.pieces, rule.to_end)


def _spelled(text: str) -> str:
    if not _WRITTEN.search(text):
        return text
    path, mark, query = text.partition("?")
    path = _WRITTEN.sub(lambda match: _spelled_character(match[0], _UNRESERVED), path)
    return path + mark + _WRITTEN.sub(lambda match: _spelled_character(match[0], _PLAIN_IN_QUERY), query)


def _spelled_character(code: str, plain: frozenset[str]) -> str:
    if len(code) == 3:
        character = chr(int(code[1:], 16))
        return character if character in plain else code.upper()
    return f"%{ord(code):02X}"


def _matches(path: str, pieces: tuple[str, ...], to_end: bool) -> bool:
    # The caller saw that the path starts with the first piece. The leftmost place is enough for each further one.
    place = len(pieces[0])
    if len(pieces) == 1:
        return place == len(path) or not to_end
    for piece in pieces[1:-1]:
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    last = pieces[-1]
    if to_end:
        return path.endswith(last) and len(path) - len(last) >= place
    return path.find(last, place) >= 0
