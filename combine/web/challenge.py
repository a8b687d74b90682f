"""Pages that ask the visitor to prove that he is a person: they count as refusals. Pure.

We never imitate a browser, so such a page is an answer: the site does not want this visitor. Only answers that refuse
(403, 429, 503) are looked at, since a page about captchas is no captcha.
"""

from __future__ import annotations

import re
import zlib

STATUSES = frozenset({403, 429, 503})

#: Bytes of a body that are looked at.
LOOK_BYTES = 64 * 1024

_FIELD = re.compile(
    rb"^(?:cf-mitigated:[ \t]*challenge|x-amzn-waf-action:[ \t]*(?:challenge|captcha))", re.IGNORECASE | re.MULTILINE
)
_MARK = re.compile(
    rb"<title>(?:just a moment|attention required! \| cloudflare|ddos-guard|are you (?:a )?(?:human|robot))"
    rb"|_cf_chl_opt|/cdn-cgi/challenge-platform/|cf-browser-verification|class=[\"']?(?:g-recaptcha|h-captcha|cf-turnstile)"
    rb"|captcha-delivery\.com|_incapsula_resource|px-captcha|geo\.captcha|awswafcaptcha|/sorry/index\?continue=",
    re.IGNORECASE,
)


def is_challenge(status: int, header: bytes, body: bytes, coding: str = "") -> bool:
    """Whether an answer is a challenge; `body` is as received."""
    if status not in STATUSES:
        return False
    return bool(_FIELD.search(header) or _MARK.search(_decoded(body[:LOOK_BYTES], coding.strip().lower())))


def _decoded(body: bytes, coding: str) -> bytes:
    if coding not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, LOOK_BYTES)
    except zlib.error:
        return body
