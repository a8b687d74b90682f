"""What settings may say beyond their types: least numbers, words, forms, and pairs that would contradict each other.

A value that cannot be meant is refused before anything starts: one clear sentence names the setting, where it was said,
and what may stand there. This module does no I/O.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from combine.errors import ConfigError
from combine.urls import BadURL, host_of, normalise

#: Settings that are one of some words.
CHOICES: dict[str, tuple[str, ...]] = {
    "rights.purpose": ("search", "archive", "research", "ai"),
    "politeness.mode": ("fixed", "auto"),
    "scheduler.revisit": ("fixed", "adaptive"),
    "urls.repeated_parameters": ("keep", "pairs", "names"),
    "page.canonical": ("record", "honour"),
    "keep.raw": ("hrf", "none"),
}

#: Numbers that must be more than 0, since nothing would be asked, taken, kept or waited for. All others may be 0.
POSITIVE = frozenset(
    (
        *("harvest.sites", "harvest.workers", "harvest.body_bytes", "harvest.header_bytes", "harvest.connect_s"),
        *("harvest.first_byte_s", "harvest.fetch_s", "harvest.batch_records", "harvest.batch_bytes"),
        *("harvest.sitemap_bytes", "harvest.sitemap_urls"),
        *("politeness.auto_concurrency", "politeness.retry_ceiling_s", "politeness.tries"),
        *("politeness.refusals", "politeness.robots_s", "politeness.site_requests_day"),
        *("politeness.site_bytes_day", "scheduler.lease_s", "scheduler.lease_jobs", "scheduler.name_s"),
        *("scheduler.revisit_s", "scheduler.revisit_least_s", "scheduler.revisit_most_s", "scheduler.gone_again_s"),
        *("scheduler.sitemap_s", "scheduler.sitemap_tries", "scheduler.url_bytes"),
        *("traps.urls", "traps.variants", "traps.same_run"),
        *("page.workers", "page.decoded_bytes", "page.ratio", "page.depth", "page.cpu_s"),
        *("keep.spool_bytes", "keep.log_bytes", "keep.log_files"),
        *("supervise.documents", "supervise.life_s", "supervise.ping_s", "supervise.silence_s"),
        *("supervise.parser_silence_s", "supervise.back_off_s", "supervise.back_off_ceiling_s", "supervise.crash_loop"),
    )
)

#: Numbers with another least value, and why.
LEAST: dict[str, tuple[float, str]] = {
    "politeness.retry_base": (1, "below it a site that fails would be asked sooner each time"),
    "politeness.robots_bytes": (512_000, "RFC 9309 asks for 500 KiB"),
    "page.memory_bytes": (64 * 1024 * 1024, "a page of 10 MB could not be read"),
    "traps.repeats": (2, "what comes once repeats nothing"),
}

#: Pairs of which the first may not be more than the second.
ORDERED = (
    ("politeness.auto_floor_s", "politeness.auto_ceiling_s"),
    ("scheduler.revisit_least_s", "scheduler.revisit_most_s"),
    ("supervise.ping_s", "supervise.silence_s"),
    ("supervise.ping_s", "supervise.parser_silence_s"),
    ("supervise.back_off_s", "supervise.back_off_ceiling_s"),
)

_TOKEN = re.compile(r"[A-Za-z_-]+")
_ENDING = re.compile(r"[a-z0-9_+~-]+")
_TYPE = re.compile(r"[\w.+-]+/(?:\*|[\w.+-]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Said:
    """Every setting's value by `section.key`, the names of those that `--set` gave, and the file of the others."""

    values: Mapping[str, Any]
    overridden: frozenset[str]
    file: str

    def fault(self, name: str, sentence: str) -> ConfigError:
        """What to raise about a setting: where it was said, and what is wrong with it."""
        return ConfigError(f"{'--set' if name in self.overridden else self.file}: {sentence}")


def check(said: Said) -> None:
    """Refuse settings that cannot be meant: raises ConfigError."""
    for name, words in CHOICES.items():
        if (value := said.values[name]) not in words:
            *others, last = (f'"{word}"' for word in words)
            raise said.fault(name, f'{name} is {", ".join(others)} or {last}, not "{value}"')
    _check_numbers(said)
    _check_agent(said)
    _check_private(said)
    _check_lists(said)


def _check_lists(said: Said) -> None:
    for entry in said.values["harvest.types"]:
        if not _TYPE.fullmatch(entry):
            raise said.fault("harvest.types", f'harvest.types holds "{entry}": write "application/pdf", or "image/*"')
    for entry in said.values["harvest.head_first"]:
        if not _ENDING.fullmatch(entry):
            raise said.fault("harvest.head_first", f'harvest.head_first holds "{entry}": write endings as "zip"')


def _check_numbers(said: Said) -> None:
    for name in sorted(POSITIVE):
        if said.values[name] == 0:
            raise said.fault(name, f"{name} is more than 0: give another, or leave it out")
    for name, (least, why) in LEAST.items():
        if (value := said.values[name]) < least:
            raise said.fault(name, f"{name} is at least {least:.15g}, not {value:.15g}: {why}")
    for low, high in ORDERED:
        if (lower := said.values[low]) > (upper := said.values[high]):
            name = low if low in said.overridden else high
            raise said.fault(name, f"{low} ({lower:.15g}) is at most {high} ({upper:.15g}): change one of them")


def _check_agent(said: Said) -> None:
    token, url, email = (said.values[f"agent.{key}"] for key in ("name", "url", "email"))
    if not _TOKEN.fullmatch(token):
        raise said.fault("agent.name", f'agent.name is a product token (letters, - and _), not "{token}"')
    for name, text in (("agent.url", url), ("agent.email", email)):
        if not text.isascii() or not text.isprintable() or any(sign in text for sign in "()<>"):
            raise said.fault(name, f"{name} goes into a request line: plain ASCII, not {text!r}")
    if url and not url.startswith(("http://", "https://")):
        raise said.fault("agent.url", f'agent.url is the address of a page, "https://…", not "{url}"')
    if email and "@" not in email:
        raise said.fault("agent.email", f'agent.email is an address that can be written to, not "{email}"')


def _check_private(said: Said) -> None:
    for entry in said.values["harvest.allow_private"]:
        if not _is_network(entry) and not _is_host(entry):
            kind = "which is no network" if "/" in entry else "which is no host name and no address"
            remedy = 'write "192.0.2.0/24", "192.0.2.7" or "intranet.example.org"'
            raise said.fault("harvest.allow_private", f'harvest.allow_private holds "{entry}", {kind}: {remedy}')


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


def _is_host(entry: str) -> bool:
    """Whether it is a host as URLs have it; a port behind it says nothing, and does no harm."""
    try:
        host = host_of(normalise(f"http://{entry}/")).strip("[]")
    except BadURL:
        return False
    written = re.fullmatch(rf"\[?{re.escape(host)}\]?(?::[0-9]*)?", entry.lower())
    return written is not None and not host.startswith(".")
