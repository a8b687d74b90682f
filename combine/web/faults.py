"""What the errors of a request are called: one word for the machine, one sentence for people.

The words are connect, timeout, tls, reset, http, address and url. This module never does I/O.
"""

from __future__ import annotations

import ssl

import aiohttp

from combine.web.addresses import Refused
from combine.web.connection import OtherPeer


def reason_of(error: BaseException) -> tuple[str, str]:
    """The word and the sentence for an error of a request."""
    detail = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, Refused):
        return "address", detail
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls", _certificate_fault(error)
    if isinstance(error, (aiohttp.ClientConnectorSSLError, ssl.SSLError)):
        return "tls", detail
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, OtherPeer)):
        return "connect", detail
    if isinstance(error, TimeoutError):
        return "timeout", "no answer in time"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "reset", "the server closed the connection without an answer"
    if isinstance(error, aiohttp.InvalidURL):
        return "url", detail
    if isinstance(error, (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, ValueError)):
        return "http", detail
    return "reset", detail


def _certificate_fault(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    fault = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
    remedy = f'[[site]] match = "{error.host}" tls = "accept" because = "…"'
    return f"the certificate of {error.host} is not accepted: {fault}; to accept it all the same, set {remedy}"
