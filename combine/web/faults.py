"""What the errors of a request are called: one word for the machine, one sentence for people.

The words are connect, timeout, tls, reset, http, address and url. This module never does I/O.
"""

from __future__ import annotations

import ssl

from combine.web.addresses import Refused
from combine.web.aiohttp_parts import ClientPayloadError, HttpProcessingError, ServerDisconnectedError
from combine.web.connection import Unconnected

#: Characters of a sentence that are kept: a parser's fault quotes what it met, and that may be a header of 64 KiB.
DETAIL_LENGTH = 500


def reason_of(error: BaseException) -> tuple[str, str]:
    """The word and the sentence for an error of a request."""
    detail = " ".join(str(error)[:DETAIL_LENGTH].split()) or type(error).__name__
    if isinstance(error, Refused):
        return "address", detail
    if isinstance(error, Unconnected):
        return _fault_of_connecting(error, detail)
    if isinstance(error, TimeoutError):
        return "timeout", "no answer in time"
    if isinstance(error, ServerDisconnectedError):
        return "reset", "the server closed the connection without an answer"
    if isinstance(error, HttpProcessingError):
        # Its text begins with a status that no server sent, and ends with a mark below what it quotes.
        said = " ".join(error.message[:DETAIL_LENGTH].split()).removesuffix(" ^")
        return "http", f"the answer is not read as HTTP: {said or type(error).__name__}"[:DETAIL_LENGTH]
    if isinstance(error, (ClientPayloadError, ValueError)):
        return "http", detail
    return "reset", detail


def _fault_of_connecting(error: Unconnected, detail: str) -> tuple[str, str]:
    cause = error.cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        remedy = f'[[site]] match = "{error.host}" tls = "accept" because = "…"'
        fault = f"the certificate of {error.host} is not accepted: {cause.verify_message}"
        return "tls", f"{fault}; to accept it all the same, set {remedy}"
    return "tls" if isinstance(cause, ssl.SSLError) else "connect", detail
