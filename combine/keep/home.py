"""The home: one directory that holds one harvest, and the questions asked of it before anything starts.

A directory is a home when it holds a FORMAT file that this program understands. Everything that makes a home unfit is
found here, at once and by name, so that no daemon meets it half-way: no write permission, a file system without
reliable locks, a path too long for a socket.  This module opens no database and reads no settings.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from combine.config import Settings
from combine.errors import ConfigError
from combine.keep import places
from combine.keep.locks import Lock as Lock
from combine.keep.locks import lock as lock
from combine.keep.locks import who_holds as who_holds
from combine.services import SERVICES

#: Whoever changes what lies in a home raises the number, and writes the way from the one before: see
#: docs/operations.md, "Upgrading".
FORMAT = "combine-home 1"

#: Bytes of a Unix socket's path: sun_path holds 108 with its NUL.
SOCKET_PATH_BYTES = 107

FIRST_TOML = """\
# The settings of a site: only what a site must decide. Every line is optional; `combine config` prints all
# settings with their present values, and docs/config.md says what each is for.

[agent]
# Who harvests, for the people whose sites are asked. Without url or email a harvest of public hosts stops at
# 100 pages.
# name = "combine"
# url = "https://example.org/our-harvester"
# email = "harvester@example.org"

[harvest]
# Addresses that are loopback, private or link-local are refused unless they are listed here.
# allow_private = ["192.0.2.0/24", "intranet.example.org"]

[politeness]
# Seconds that a site rests between two requests. "auto" lets each site's own answers set the pace.
# mode = "fixed"
# delay_s = 60

[keep]
# Whether pages stay in raw/ after parsing, and for how long: "hrf" lets records be made again without asking the web.
# raw = "hrf"
# raw_days = 90

# A rule for one host, or with a leading dot for a domain and all below it.
# [[site]]
# match = ".example.org"
# delay_s = 5
"""

FIRST_EXCLUDE = """\
# Never to be asked, one a line: a host, ".domain" for a domain and all below it, or the beginning of a URL.
"""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one home; a value that owns nothing. `path` is absolute."""

    path: Path

    @property
    def run(self) -> Path:
        """Locks, pid files, status files and, unless a service manager gave another place, sockets."""
        return self.path / "run"

    @property
    def cabin(self) -> Path:
        """The scheduler's queues."""
        return self.path / "cabin"

    @property
    def idb(self) -> Path:
        """The visits of idbd."""
        return self.path / "idb"

    @property
    def robots(self) -> Path:
        """Last good copies of robots.txt."""
        return self.path / "robots"

    @property
    def hrf(self) -> Path:
        """The spool."""
        return self.path / "hrf"

    @property
    def spool_tmp(self) -> Path:
        """Batches and bodies that are coming in, named by the harvester's slot."""
        return self.path / "hrf" / "tmp"

    @property
    def spool_new(self) -> Path:
        """Published batches."""
        return self.path / "hrf" / "new"

    @property
    def spool_cur(self) -> Path:
        """Batches in work, in a directory for each parser's slot."""
        return self.path / "hrf" / "cur"

    @property
    def spool_bad(self) -> Path:
        """Harvests that no parser could work on."""
        return self.path / "hrf" / "bad"

    @property
    def tmp(self) -> Path:
        """Where a record is written before its rename, named by slot."""
        return self.path / "tmp"

    @property
    def hdb(self) -> Path:
        """The records."""
        return self.path / "hdb"

    @property
    def raw(self) -> Path:
        """Batches kept after parsing."""
        return self.path / "raw"

    @property
    def log(self) -> Path:
        """Events."""
        return self.path / "log"

    @property
    def config_file(self) -> Path:
        """The settings."""
        return self.path / "combine.toml"

    @property
    def exclude_file(self) -> Path:
        """Hosts and URL prefixes never to be asked."""
        return self.path / "exclude"

    @property
    def allow_file(self) -> Path:
        """Hosts and URL prefixes of which alone any is asked; where it is absent, all may be."""
        return self.path / "allow"

    @property
    def format_file(self) -> Path:
        """The file that makes a directory a home."""
        return self.path / "FORMAT"

    @property
    def sockets(self) -> Path:
        """Where the sockets are: run/, or what run/sockets (a service manager's directory) points to if it is there."""
        elsewhere = self.run / "sockets"
        return Path(os.readlink(elsewhere)) if elsewhere.is_symlink() and elsewhere.is_dir() else self.run

    def socket(self, name: str) -> Path:
        """The socket of a daemon."""
        return self.sockets / (SERVICES[name].socket if name in SERVICES else f"{name}.sock")

    def pid_file(self, name: str) -> Path:
        """The locked pid file of a daemon or a unit."""
        return self.run / f"{name}.pid"

    def status_file(self, unit: str) -> Path:
        """What a unit's keepalive says of its children."""
        return self.run / f"{unit}.status"

    def slot_file(self, slot: str) -> Path:
        """The file that the holder of a worker slot (`parser-2`) keeps locked."""
        return self.run / f"{slot}.slot"

    def directories(self) -> tuple[Path, ...]:
        """All directories of a home, parents first."""
        spool = (self.hrf, self.spool_tmp, self.spool_new, self.spool_cur, self.spool_bad)
        return (self.run, self.cabin, self.idb, self.robots, *spool, self.tmp, self.hdb, self.raw, self.log)


def is_home(path: Path) -> bool:
    """Whether the directory holds a FORMAT file."""
    return (path / "FORMAT").is_file()


def find(option: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """The home that is meant: the option, else $COMBINE_HOME, else `cwd` if it is a home, else ./harvest.

    It may not exist.
    """
    given = option or environ.get("COMBINE_HOME")
    if given:
        return Path(os.path.abspath(cwd / given))
    return cwd.absolute() if is_home(cwd) else cwd.absolute() / "harvest"


def create(path: Path) -> Home:
    """Make a home, or complete one that is there already; raises ConfigError where the place is taken or unfit.

    A full disk raises RetryLater; the next call goes on from there.
    """
    home = Home(Path(os.path.abspath(path)))
    if os.path.lexists(home.format_file):
        _check_format(home)
    _refuse_long_path(home)
    _refuse_network(home.path)
    try:
        above = [path.parent for path in (home.path, *home.path.parents) if not path.exists()]
        home.path.mkdir(parents=True, exist_ok=True)
        if not is_home(home.path) and not _is_begun(home):
            raise ConfigError(f"{home.path} holds other files and is not a home: name a new or an empty directory")
        _make_directories(home)
        for file, text in _first_files(home).items():
            if not file.exists():
                _put(file, text)
        for path in above:
            places.sync_directory(path)
    except OSError as error:
        raise places.unfit(home.path, error) from None
    return home


def open_home(path: Path, environ: Mapping[str, str] = os.environ, write: bool = True) -> Home:
    """Take a home into use; raises ConfigError, in one sentence, for everything that makes it unfit.

    What passes, as a full disk does, raises RetryLater.

    Where a service manager gives a run directory ($RUNTIME_DIRECTORY), the sockets go there, and run/sockets points
    to it so that commands outside the service find them. Without `write` only FORMAT is looked at: enough for readers.
    """
    home = Home(Path(os.path.abspath(path)))
    _check_format(home)
    if not write:
        return home
    _refuse_network(home.path)
    places.check_directories(home.directories())
    for directory, ends in _files(home):
        places.check_files(directory, ends)
    _check_writable(home)
    try:
        _make_directories(home)
        given = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        if given and Path(given).is_dir():
            _point_to(home.run / "sockets", given)
    except OSError as error:
        raise places.unfit(home.path, error) from None
    _refuse_long_path(home)
    return home


@dataclass(frozen=True, slots=True)
class Room:
    """What the disk of a home has left: `sentence` says what is short, and is "" where nothing is."""

    free_bytes: int
    reserve_bytes: int
    free_inodes: int
    reserve_inodes: int
    spool_bytes: int
    spool_limit: int
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether nothing is short."""
        return not self.sentence


def room(home: Home, settings: Settings) -> Room:
    """Look at the disk and the spool; cheap enough for once a second. File systems that count no inodes have enough."""
    disk = os.statvfs(home.path)
    total = disk.f_blocks * disk.f_frsize
    free = disk.f_bavail * disk.f_frsize
    reserve = min(settings.keep.reserve_bytes, total // 20)
    reserve_inodes = disk.f_files // 20
    cur = [entry for entry in home.spool_cur.iterdir() if entry.is_dir()]
    spool = sum(places.weigh(directory, ".hrf")[1] for directory in (home.spool_new, *cur))
    limit = min(settings.keep.spool_bytes, total // 10)
    sentence = ""
    if free < reserve:
        sentence = (
            f"the disk of {home.path} has {places.size(free)} left and {places.size(reserve)} are kept free: make room"
        )
    elif disk.f_files and disk.f_favail < reserve_inodes:
        sentence = f"the disk of {home.path} has {disk.f_favail} inodes left and {reserve_inodes} are kept: make room"
    elif spool >= limit:
        sentence = f"the spool holds {places.size(spool)}, its limit is {places.size(limit)}: parsers catch up first"
    return Room(free, reserve, disk.f_favail, reserve_inodes, spool, limit, sentence)


def _refuse_network(path: Path) -> None:
    kind = places.file_system_of(path)
    if kind in places.NETWORK_FILE_SYSTEMS:
        raise ConfigError(f"{path} is on a network file system ({kind}), which has no reliable locks: use a local disk")


def _refuse_long_path(home: Home) -> None:
    longest = max(
        (home.socket(name) for name, service in SERVICES.items() if service.socket), key=lambda p: len(str(p))
    )
    size = len(os.fsencode(longest))
    if size > SOCKET_PATH_BYTES:
        raise ConfigError(
            f"{longest} has {size} bytes and a socket's path at most {SOCKET_PATH_BYTES}: use a shorter path"
        )


def _first_files(home: Home) -> dict[Path, str]:
    """What a home starts with. FORMAT comes last: a directory becomes a home when it is complete."""
    return {home.config_file: FIRST_TOML, home.exclude_file: FIRST_EXCLUDE, home.format_file: FORMAT + "\n"}


def _files(home: Home) -> tuple[tuple[Path, tuple[str, ...]], ...]:
    """Where files are that this program opens by their names, and how these end."""
    run = (".pid", ".slot", ".status", "yielded")
    return (home.run, run), (home.log, (".out",)), (home.cabin, (".sqlite",)), (home.idb, (".sqlite",))


def _make_directories(home: Home) -> None:
    """Make what is missing, durably: below it lies all that will be acknowledged."""
    missing = [directory for directory in home.directories() if not directory.exists()]
    for directory in missing:
        directory.mkdir(exist_ok=True, mode=0o700 if directory == home.run else 0o777)
    for above in {directory.parent for directory in missing}:
        places.sync_directory(above)


def _put(file: Path, text: str) -> None:
    """Write a file as a whole, durable before the next one: a power cut leaves no home with an empty FORMAT."""
    fresh = _fresh(file)
    with open(fresh, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.rename(file)
    places.sync_directory(file.parent)


def _fresh(file: Path) -> Path:
    return file.with_name(file.name + ".fresh")


def _is_begun(home: Home) -> bool:
    """Whether the directory is empty but for what an earlier `create` made before it met a full disk."""
    files = _first_files(home)
    own = {*home.directories(), *files, *(_fresh(file) for file in files)}
    return all(path in own for path in home.path.rglob("*"))


def _check_format(home: Home) -> None:
    if kind := places.strange(home.format_file):  # a pipe would be waited for, and a device read without end
        raise ConfigError(f"{home.format_file} is {kind}: write {FORMAT!r} into a file there, if this is a home")
    try:
        text = home.format_file.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{home.path} is not a home; make one with: combine init {quote(str(home.path))}") from None
    except OSError as error:
        raise places.unfit(home.format_file, error) from None
    if text != FORMAT:
        remedy = (
            "use the program that wrote it, or a newer one (pip install --upgrade combine-system)"
            if text.startswith("combine-home ")
            else f"write that line into it, if {home.path} is a home"
        )
        raise ConfigError(f"{home.format_file} says {text[:40]!r} and this program knows {FORMAT!r}: {remedy}")


def _check_writable(home: Home) -> None:
    for directory in (home.path, *home.directories()):
        if directory.exists() and not os.access(directory, os.W_OK | os.X_OK):
            code = errno.EROFS if os.statvfs(directory).f_flag & os.ST_RDONLY else errno.EACCES
            raise places.unfit(directory, OSError(code, os.strerror(code)))


def _point_to(link: Path, target: str) -> None:
    if link.is_symlink() and os.readlink(link) == target:
        return
    fresh = link.with_name(f"sockets-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.rename(link)
