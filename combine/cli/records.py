"""The commands that read records: list, show, grep.

They read the files of the store and ask no daemon, so they work whether anything runs or not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import click

from combine import urls
from combine.cli.screen import counted, put, put_bytes, put_json, say
from combine.cli.seeds import parse
from combine.cli.session import Session, command
from combine.errors import EXIT_FINDING, CombineError, RecordError
from combine.keep.home import Home
from combine.keep.store import WirStore, is_id, read_file
from formats import wir

#: Bytes of a record's file in which its URL stands: the version, the id, and a URL of at most 2,048 bytes.
_HEAD_BYTES = 4096

_URL_LINE = re.compile(rb"^url: ([^\n]*)\n", re.MULTILINE)

#: Characters shown before and after what grep found.
_AROUND = 40


def url_in(place: str) -> str:
    """The URL in a record's file, read from its first lines; "" where it holds none, or is no file."""
    try:
        found = _URL_LINE.search(read_file(place, _HEAD_BYTES))
    except RecordError:
        return ""
    return found[1].decode("utf-8", "replace") if found else ""


def listed(home: Home, site: str = "") -> Iterator[tuple[str, str]]:
    """ID and URL of every record, or of those of one site or host. The URL of a damaged record is ""."""
    for place in WirStore(home).places():
        try:
            url = url_in(place)
        except FileNotFoundError:
            continue
        if not site or site in (urls.site_of(url), urls.host_of(url)):
            yield os.path.basename(place), url


def find_key(home: Home, text: str) -> str:
    """The key of the record that a person means: where no scheme was given, https or else http; raises CombineError."""
    if is_id(text):
        keys = [text]
    else:
        seed = parse(text)
        keys = [key for key in (seed.url, seed.fallback) if key]
    store = WirStore(home)
    for key in keys:
        if store.path(key).exists():
            return key
    raise CombineError(
        f"there is no record of {keys[0]}" + ("" if is_id(text) else f"; combine why {keys[0]} says why")
    )


def found_in(record: wir.Record, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    """The first field that holds a text, and the text with its surroundings on one line; None where none does."""
    for name, value in record.fields:
        if match := pattern.search(value):
            start, end = max(0, match.start() - _AROUND), match.end() + _AROUND
            return name, " ".join(value[start:end].split())
    return None


@command("list", json=True)
@click.option("--site", metavar="SITE", default="", help="Only those of a host, or of host:port.")
def list_command(session: Session, site: str) -> int:
    """List the records: ID, a tab, and the URL."""
    damaged = 0
    rows = []
    for record_id, url in listed(session.home(write=False), site):
        damaged += not url
        if session.json:
            rows.append({"id": record_id, "url": url})
        else:
            put(f"{record_id}\t{url}\n")
    if session.json:
        put_json(rows)
    if damaged:
        say(f"combine: {counted(damaged, 'damaged record')} without a URL")
    return EXIT_FINDING if damaged else 0


@command("show", json=True)
@click.argument("key", metavar="URL|ID")
@click.option("--path", "as_path", is_flag=True, help="Print where the record lies.")
@click.option("--raw", "as_raw", is_flag=True, help="Print the response as it was received: header and body.")
def show_command(session: Session, key: str, as_path: bool, as_raw: bool) -> None:
    """Print a record."""
    if as_path + as_raw + session.json > 1:
        raise click.UsageError("--path, --raw and --json cannot be combined")
    home = session.home(write=False)
    store = WirStore(home)
    found = find_key(home, key)
    if as_path:
        put(f"{store.path(found)}\n")
        return
    data = store.get_bytes(found)
    if data is None:
        raise CombineError(f"the record of {found} was removed just now")
    if as_raw:
        put_bytes(response_of(home, wir.parse(data)))
    elif session.json:
        put_json(wir.as_json(wir.parse(data)))
    else:
        put_bytes(data)


@command("grep", json=True)
@click.argument("text")
@click.option("-i", "--ignore-case", is_flag=True, help="Capital and small letters are the same.")
@click.option("-E", "--regexp", is_flag=True, help="TEXT is a regular expression.")
def grep_command(session: Session, text: str, ignore_case: bool, regexp: bool) -> int:
    """Find the records that hold a text.

    One line a record: ID, URL, the field that holds it, and the text around it, with tabs between them.
    """
    try:
        pattern = re.compile(text if regexp else re.escape(text), re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.UsageError(f"{text!r} is no regular expression: {error}") from None
    rows = []
    count = 0
    for record in WirStore(session.home(write=False)).records(_say_damaged):
        if (hit := found_in(record, pattern)) is None:
            continue
        count += 1
        if session.json:
            rows.append({"id": record.id, "url": record.url, "field": hit[0], "text": hit[1]})
        else:
            put(f"{record.id}\t{record.url}\t{hit[0]}\t{hit[1]}\n")
    if session.json:
        put_json(rows)
    return 0 if count else EXIT_FINDING


def response_of(home: Home, record: wir.Record) -> bytes:
    """Header and body of the response that a record was made from, as received.

    Raises CombineError where it is not kept.
    """
    from combine.keep.raw import Raw

    harvest = Raw(home).of(record)
    if harvest is None:
        raise CombineError(
            f"the response of {record.url} is not kept: keep.raw was off, or it is older than keep.raw_days"
        )
    return harvest.header + harvest.body


def _say_damaged(error: RecordError) -> None:
    say(f"combine: {error}")
