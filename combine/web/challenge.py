"""Pages that ask the visitor to prove that he is a person: they count as refusals. Pure.

We never imitate a browser, so such a page is an answer: the site does not want this visitor. Only answers that refuse
(403, 429, 503) are looked at, since a page about captchas is no captcha.
"""

from __future__ import annotations

import re

from combine.codings import decode

STATUSES = frozenset({403, 429, 503})

#: Bytes of a body that are looked at, and of what they are once decoded.
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
    """Whether an answer is a challenge; `body` is as received, in the codings of its Content-Encoding."""
    if status not in STATUSES:
        return False
    if _FIELD.search(header):
        return True
    seen = body[:LOOK_BYTES]
    return bool(_MARK.search(decode(seen, [coding], LOOK_BYTES, ratio=200).body if coding else seen))
