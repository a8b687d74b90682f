"""The settings of a home: every default once, with its unit and its reason; read from combine.toml.

A setting is written `section.key`; sections are the dataclasses below. An unknown section or key is refused by name
with the nearest known one, a value of the wrong type with what is allowed. `--set section.key=value` on a command
line wins over the file. This module reads one file and does no other I/O.

Size: every setting stands here, so that there is one place to look for it.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from combine import bounds
from combine.errors import ConfigError, RetryLater, passes
from combine.site_rules import SiteRule as SiteRule
from combine.site_rules import check, check_together

if TYPE_CHECKING:
    from combine.urls import Options

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_S = 86400.0


#: The endings of Combine 4's <binext>, and those that its predecessor had too and nobody here reads.
HEAD_FIRST = tuple(
    (
        "arff au avi class exe fig gif gz hqx ica jpeg jpg mat mdb mov mp3 mpeg mpg msi pcx pdb psd ram rar raw rmd rmx"
        " sav sdd shar tar tga tgz tif tiff vo wav wmv wmz xbm xpm z zip ps pdf doc rtf"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Agent:
    """Who harvests: robots.txt is matched by `name`; without url and email a harvest of public hosts is limited."""

    name: str = "combine"  # product token: letters, - and _
    url: str = ""  # page that tells site operators who asks and how to block it
    email: str = ""  # whom they may write to

    @property
    def has_contact(self) -> bool:
        """Whether the people of a harvested site can find out who asks."""
        return bool(self.url or self.email)


@dataclass(frozen=True, slots=True)
class Harvest:
    """What a harvester may ask, and how much."""

    allow_private: tuple[str, ...] = ()  # networks, addresses or host names that may be private
    sites: int = 100  # leased sites a harvester works on at once
    workers: int = 1  # harvester processes
    body_bytes: int = 10 * MIB  # longest body taken; longer ones are cut and say so
    header_bytes: int = 64 * KIB  # longest status line and fields
    spill_bytes: int = 256 * KIB  # a body over this lies on disk while it comes in
    connect_s: float = 10.0  # until connected, TLS included
    first_byte_s: float = 30.0  # from the request to the end of the answer's header; later, without a byte
    fetch_s: float = 120.0  # a whole fetch
    slowest_bytes_s: int = 1 * KIB  # slower than this over 30 s is given up
    batch_records: int = 100  # a batch of harvests is handed to the parsers at this many records
    batch_bytes: int = 4_000_000  # or at this size
    batch_s: float = 1.0  # after its first record a batch waits no longer
    types: tuple[str, ...] = ()  # fetched whole beside HTML, XML and text, which are read: "application/pdf", "image/*"
    head_first: tuple[str, ...] = HEAD_FIRST  # endings of names that get a HEAD first: the historical ones
    sitemaps: bool = True  # read the sitemaps that a robots.txt names
    sitemap_bytes: int = 50 * MIB  # of a sitemap, the limit of sitemaps.org
    sitemap_urls: int = 50_000  # of a sitemap that become jobs, the limit of sitemaps.org
    anonymous_pages: int = 100  # of public hosts in one run, without agent.url and agent.email
    anonymous_delay_s: float = 5.0  # least delay of public hosts then


@dataclass(frozen=True, slots=True)
class Politeness:
    """How long a site rests between the end of one request and the start of the next."""

    mode: str = "fixed"  # fixed, or auto
    delay_s: float = 60.0  # fixed: the historical minute
    auto_start_s: float = 5.0  # auto: the first delay
    auto_floor_s: float = 1.0  # auto: never below
    auto_ceiling_s: float = 60.0  # auto: never above
    auto_concurrency: float = 1.0  # auto: the delay tends to latency / this
    address_delay_s: float = 1.0  # between sites that share an address; 0 on listed private hosts
    margin_s: float = 0.05  # added to every delay above 0: a site notes the end of an answer later than we have it
    crawl_delay_report_s: float = 300.0  # a longer crawl-delay of a robots.txt is obeyed and reported
    retry_base: float = 1.5  # seconds to the power of the tries
    retry_ceiling_s: float = DAY_S  # longest wait before another try, Retry-After included
    tries: int = 20  # dead after so many tries and `tries_s`
    tries_s: float = DAY_S  # how long the tries of a URL go on at least
    refusals: int = 20  # answers 401, 403, 451 in a row that rest a site for a day
    robots_s: float = DAY_S  # a copy of robots.txt is good for so long
    robots_stale_s: float = 30 * DAY_S  # the last good copy serves so long while the file is unreachable
    robots_bytes: int = 512 * KIB  # as much of a robots.txt is read
    site_requests_day: int = 10_000  # requests to a site a day; a site rule may raise it
    site_bytes_day: int = 1_000_000_000  # bytes from a site a day; a site rule may raise it


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The queues."""

    lease_s: float = 60.0  # a lease holds as many jobs as fit in this at the site's delay
    lease_jobs: int = 100  # and never more than this
    lease_grace_s: float = 120.0  # a lease older than lease_s + one delay + this is ended by killing its holder
    take_wait_s: float = 20.0  # the historical wait of a harvester for a job
    name_s: float = 300.0  # a looked-up address is good for so long
    revisit_s: float = 30 * DAY_S  # the historical 30 days
    revisit: str = "fixed"  # or adaptive: sooner where a page changed, later where it did not
    revisit_least_s: float = DAY_S  # adaptive: never sooner
    revisit_most_s: float = 180 * DAY_S  # adaptive: never later
    gone_again_s: float = DAY_S  # a first 404 is looked at again after this
    sitemap_s: float = DAY_S  # a sitemap is read again after this, and no page sooner for what one says of it
    sitemap_levels: int = 3  # sitemaps that sitemaps name
    sitemap_tries: int = 3  # a sitemap that fails so often is given up: it is no page, and holds up nothing
    max_depth: int = 10_000  # hops from a seed, where a seed gives none
    redirects: int = 10  # hops of a chain
    links_page: int = 2_000  # links of one page that become jobs
    url_bytes: int = 2_048  # longer URLs are refused
    standing: bool = True  # ask again what is due; a one-shot harvest does not


@dataclass(frozen=True, slots=True)
class Urls:
    """What the normal form of a URL leaves out beyond the standards: each may merge two pages into one, or lose one."""

    server_aliases: tuple[str, ...] = ()  # lines `preferred alias1 alias2 …` of hosts, or host:port
    session_parameters: tuple[str, ...] = ()  # dropped from query and path; once sessionid, jsessionid, PHPSESSID, …
    repeated_parameters: str = "keep"  # keep; pairs: equal ones stand once; names: the first of each name stands
    single_slashes: bool = False  # runs of slashes in the path become one

    def options(self) -> Options | None:
        """What `normalise` takes; None where the normal form is the standards'."""
        return None if self == _PLAIN_URLS else _options(self)


_PLAIN_URLS = Urls()


@lru_cache(maxsize=8)
def _options(urls: Urls) -> Options:
    # Loaded when first needed: most homes have no such settings.
    from combine.urls import Options, aliases

    return Options(
        aliases(urls.server_aliases),
        frozenset(urls.session_parameters),
        urls.repeated_parameters,
        urls.single_slashes,
    )


@dataclass(frozen=True, slots=True)
class Traps:
    """URLs without end that a site makes of few pages: when they are taken for that, and how many of them are taken."""

    urls: int = 100  # of one trap: of a calendar, of a filter's query
    variants: int = 3  # of one page under different session ids
    repeats: int = 3  # a path segment, or a parameter, that comes so often is no chance
    parameters: int = 10  # in a query; more are a growing one
    years_ahead: int = 2  # a date later than that in a URL is a calendar's
    years_back: int = 50  # or earlier
    same_run: int = 100  # pages of one kind in a row whose text another page of the site has


@dataclass(frozen=True, slots=True)
class Page:
    """What a parser may spend on a page."""

    workers: int = 2  # parser processes
    decoded_bytes: int = 50 * MIB  # of a body after gzip and the like
    ratio: int = 200  # decoded to received
    links: int = 5_000  # recorded in a page's record
    depth: int = 512  # of nested elements
    memory_bytes: int = 1 * GIB  # of one parser
    cpu_s: int = 30  # of a parser for one page
    canonical: str = "record"  # or honour: a page that names another as its canonical one has no record


@dataclass(frozen=True, slots=True)
class Rights:
    """What the records are for: robots.txt says who may ask, the operator what he uses the pages for."""

    purpose: str = "search"  # or archive, research, ai: of the last two, reserved pages are left out of exports


@dataclass(frozen=True, slots=True)
class Keep:
    """What stays on disk, and what must stay free."""

    raw: str = "hrf"  # hrf: batches stay in raw/ after parsing; none: they are removed
    raw_days: int = 90  # older batches are removed
    spool_bytes: int = 1 * GIB  # or 10 % of the disk, the smaller
    reserve_bytes: int = 1 * GIB  # or 5 % of the disk, the smaller, and 5 % of the inodes
    log_bytes: int = 16 * MIB  # an event file is rotated at this size, and daily
    log_files: int = 20  # older ones are removed


@dataclass(frozen=True, slots=True)
class Supervise:
    """How keepalive looks after its children."""

    documents: int = 10_000  # a worker's life
    life_s: float = 3600.0  # or so long, whichever ends first
    ping_s: float = 5.0  # between two PINGs
    silence_s: float = 10.0  # no PONG for so long: killed and replaced
    parser_silence_s: float = 40.0  # the same for a parser, which may sit long over one page
    stop_s: float = 8.0  # from SIGTERM to SIGKILL
    back_off_s: float = 0.1  # first wait before a restart; doubles
    back_off_ceiling_s: float = 30.0  # longest wait before a restart
    crash_loop: int = 5  # restarts within a minute that are called a crash loop


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a home; `origins` names where each value that is not a default comes from."""

    agent: Agent = field(default_factory=Agent)
    harvest: Harvest = field(default_factory=Harvest)
    politeness: Politeness = field(default_factory=Politeness)
    scheduler: Scheduler = field(default_factory=Scheduler)
    urls: Urls = field(default_factory=Urls)
    traps: Traps = field(default_factory=Traps)
    page: Page = field(default_factory=Page)
    rights: Rights = field(default_factory=Rights)
    keep: Keep = field(default_factory=Keep)
    supervise: Supervise = field(default_factory=Supervise)
    site: tuple[SiteRule, ...] = ()
    origins: dict[str, str] = field(default_factory=dict, compare=False)

    def site_rule(self, host: str) -> SiteRule | None:
        """The first rule that covers a host."""
        return next((rule for rule in self.site if rule.covers(host)), None)


SECTIONS: dict[str, type] = {
    name: kind for name, kind in get_type_hints(Settings).items() if name not in ("site", "origins")
}


def load(home: Path, overrides: tuple[str, ...] = ()) -> Settings:
    """Read the home's combine.toml, which may be absent, then `section.key=value` overrides.

    Raises ConfigError for what cannot be read, is not known or is not allowed.
    """
    path = home / "combine.toml"
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    rules: tuple[SiteRule, ...] = ()
    for section, table in _document(path).items():
        if section == "site":
            rules = tuple(_site_rule(rule, f"{path} [[site]]") for rule in _list_of_tables(table, path))
            check_together(rules, f"{path} [[site]]")
            continue
        if section not in SECTIONS:
            raise ConfigError(f"{path}: unknown section [{section}]{_nearest(section, [*SECTIONS, 'site'])}")
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {section} is a section: write [{section}] and its keys below")
        for key, value in table.items():
            values.setdefault(section, {})[key] = _checked(section, key, value, str(path))
            origins[f"{section}.{key}"] = path.name
    for override in overrides:
        section, key, value = _override(override)
        if isinstance(value, tuple):
            value = (*values.get(section, {}).get(key, ()), *value)
        values.setdefault(section, {})[key] = value
        origins[f"{section}.{key}"] = "--set"
    sections = {section: SECTIONS[section](**table) for section, table in values.items()}
    settings = Settings(**sections, site=rules, origins=origins)
    _check_meaning(settings, str(path))
    return settings


def _document(path: Path) -> dict[str, Any]:
    if path.is_fifo() or path.is_char_device():  # that would be waited for, and this read without end
        kind = "a named pipe" if path.is_fifo() else "a device"
        raise ConfigError(f"{path} cannot be read: it is {kind}; put a file there")
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; mend that line") from None
    except RecursionError:
        raise ConfigError(f"{path} is not understood: its values are nested too deep") from None
    except OSError as error:
        sentence = f"{path} cannot be read: {error.strerror}"
        raise (RetryLater if passes(error) else ConfigError)(sentence) from None


def _override(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    section, _, key = name.partition(".")
    if not equals or section not in SECTIONS:
        raise ConfigError(f"--set {text}: write section.key=value{_nearest(section, list(SECTIONS))}")
    return section, key, _from_text(section, key, value)


def known_keys() -> list[tuple[str, str, Any]]:
    """Every setting as (section, key, default), in the order of this file."""
    return [
        (section, item.name, item.default) for section, kind in SECTIONS.items() for item in dataclasses.fields(kind)
    ]


def _check_meaning(settings: Settings, file: str) -> None:
    values = {f"{section}.{key}": getattr(getattr(settings, section), key) for section, key, _ in known_keys()}
    overridden = frozenset(name for name, origin in settings.origins.items() if origin == "--set")
    said = bounds.Said(values, overridden, file)
    bounds.check(said)
    try:
        settings.urls.options()
    except ValueError as error:
        raise said.fault("urls.server_aliases", f"urls.server_aliases: {error}") from None


def _list_of_tables(value: Any, path: Path) -> list[dict[str, Any]]:
    if isinstance(value, list) and all(isinstance(rule, dict) for rule in value):
        return value
    raise ConfigError(f'{path}: site rules are tables: write [[site]] and match = "host" below it')


#: Keys of a site rule that may be written without their unit.
_SHORT = {"delay": "delay_s", "revisit": "revisit_s"}


def _site_rule(table: dict[str, Any], place: str) -> SiteRule:
    known = {item.name for item in dataclasses.fields(SiteRule)}
    for short, whole in _SHORT.items():
        if short in table and whole in table:
            raise ConfigError(f"{place}: {short} and {whole} are one setting: leave one of them out")
    table = {_SHORT.get(key, key): value for key, value in table.items()}
    for key in table:
        if key not in known:
            raise ConfigError(f"{place}: unknown key {key!r}{_nearest(key, sorted(known))}")
    if not isinstance(table.get("match"), str) or not table["match"]:
        raise ConfigError(f'{place}: a site rule names its hosts: match = "example.org" or ".example.org"')
    rule = SiteRule(**{key: _typed(value, SiteRule, key, place) for key, value in table.items()})
    check(rule, place)
    return rule


def _checked(section: str, key: str, value: Any, place: str) -> Any:
    kind = SECTIONS[section]
    known = [item.name for item in dataclasses.fields(kind)]
    if key not in known:
        raise ConfigError(f"{place}: unknown key {key!r} in [{section}]{_nearest(key, known)}")
    return _typed(value, kind, key, f"{place} [{section}]")


def _typed(value: Any, kind: type, key: str, place: str) -> Any:
    hint = str(kind.__annotations__[key])
    if "tuple" in hint:
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
        raise ConfigError(f"{place}: {key} is a list of strings, not {value!r}")
    if "str" in hint:
        if isinstance(value, str):
            return value
        raise ConfigError(f"{place}: {key} is a string, not {value!r}")
    if "bool" in hint:
        if isinstance(value, bool):
            return value
        raise ConfigError(f"{place}: {key} is true or false, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise ConfigError(f"{place}: {key} is a number from 0 up, not {value!r}")
    if "float" in hint:
        return float(value)
    if value != int(value):
        raise ConfigError(f"{place}: {key} is a whole number, not {value!r}")
    return int(value)


def _from_text(section: str, key: str, text: str) -> Any:
    hint = str(SECTIONS[section].__annotations__.get(key, "str"))
    value: Any = text
    if "tuple" in hint:
        value = [entry for entry in text.split(",") if entry]
    elif "bool" in hint:
        value = {"true": True, "false": False}.get(text, text)
    elif "str" not in hint:
        try:
            value = float(text)
        except ValueError:
            value = text
    return _checked(section, key, value, "--set")


def _nearest(word: str, known: list[str]) -> str:
    import difflib  # for those who misspelt something

    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {', '.join(known)}"
