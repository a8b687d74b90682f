"""The word and the sentence for what went wrong: the tables of test_fetch.py meet most of them on the wire."""

from __future__ import annotations

from aiohttp.http_exceptions import BadStatusLine

from combine.web.faults import DETAIL_LENGTH, reason_of
from formats import jcf


def test_a_sentence_that_quotes_a_whole_header_is_cut() -> None:
    word, detail = reason_of(BadStatusLine('"%' * 30_000))
    assert "http" == word
    assert len(detail) <= DETAIL_LENGTH
    assert len(jcf.dump(jcf.job(REASON=word, DETAIL=detail))) < 4 * DETAIL_LENGTH
