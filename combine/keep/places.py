"""Places: what kind of file system a path is on, how much lies in a directory, and why one cannot be used.

Also the calls that are not done by calling them once: writes, and the sync of a directory.
"""

from __future__ import annotations

import errno
import logging
import os
import pwd
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from combine.errors import CombineError, ConfigError, RetryLater, passes

log = logging.getLogger(__name__)

#: How a rename fails where something is in its way that is no directory, or is one; ENOENT is a link's without an end.
IN_THE_WAY = frozenset((errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.EEXIST, errno.ELOOP))

#: File systems on which flock, rename or fsync cannot be trusted among machines, as /proc/self/mountinfo names them.
NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "ceph", "lustre", "afs", "openafs", "coda", "gfs2"),
        *("ocfs2", "glusterfs", "beegfs", "gpfs", "davfs", "orangefs", "pvfs2", "fuse.sshfs", "fuse.glusterfs"),
        *("fuse.ceph", "fuse.cephfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "fuse.davfs2"),
        *("fuse.curlftpfs", "fuse.gcsfuse", "fuse.goofys", "fuse.juicefs", "fuse.mfs", "fuse.moosefs", "fuse.smbnetfs"),
        *("fuse.lizardfs", "fuse.seaweedfs", "fuse.gvfsd-fuse", "fuse.hdfs", "fuse.blobfuse", "fuse.blobfuse2"),
    )
)


def file_system_of(path: Path) -> str:
    """The type of the file system on which a path is, or will be; "" where the system does not say."""
    place = path.resolve()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return file_system(place, mounts)


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system below an absolute path, by the text of /proc/self/mountinfo; "" if it names none."""
    deepest, kind = -1, ""
    for line in mounts.split("\n"):
        left, dash, right = line.partition(" - ")
        columns = left.split(" ")
        if not dash or len(columns) < 5:
            continue
        point = Path(_unescape(columns[4]))
        # Of two mounts on one point the later one is seen.
        if len(point.parts) >= deepest and (path == point or point in path.parents):
            deepest, kind = len(point.parts), right.split(" ")[0]
    return kind


def weigh(directory: Path, suffix: str) -> tuple[int, int]:
    """How many files of a suffix a directory holds, and their bytes; none where there is no directory."""
    count = total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.endswith(suffix):
                    continue
                try:
                    total += entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
                count += 1
    except (FileNotFoundError, NotADirectoryError):
        return count, total
    return count, total


def write_all(descriptor: int, data: bytes, offset: int) -> int:
    """Write at an offset until nothing is left, since one call may write less; answer where it ends. Raises OSError."""
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, offset)
        left = left[written:]
        offset += written
    return offset


def write_pieces(descriptor: int, pieces: Sequence[bytes], offset: int) -> int:
    """Write pieces one after another, at most IOV_MAX (1,024) of them; answer where they end. Raises OSError."""
    written, length = os.pwritev(descriptor, pieces, offset), sum(map(len, pieces))
    if written < length:
        write_all(descriptor, b"".join(pieces)[written:], offset + written)
    return offset + length


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: what was made, renamed and removed in it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_plain(path: Path | str) -> bool:
    """Whether a regular file lies there: no link, no directory, and no named pipe, which would be waited for."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def strange(path: Path) -> str:
    """What lies in the place of a file and is none, in words; "" for a file, a link to one, and where nothing is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "a link that leads to no file" if path.is_symlink() else ""
    if stat.S_ISREG(mode):
        return ""
    return "a directory" if stat.S_ISDIR(mode) else "a named pipe" if stat.S_ISFIFO(mode) else "no file"


def check_directories(directories: Iterable[Path]) -> None:
    """Refuse what is no directory and is in the place of one: raises ConfigError. What is missing is well."""
    for directory in directories:
        if directory.is_dir() or not os.path.lexists(directory):
            continue
        if directory.is_symlink():
            raise ConfigError(
                f"{directory} leads to {os.readlink(directory)}, where no directory is: mount or make that, or remove"
                " the link"
            )
        raise ConfigError(f"{directory} is no directory: move it away")


def check_files(directory: Path, ends: tuple[str, ...]) -> None:
    """Refuse what nobody can write to as to a file, or waits for: raises ConfigError. Names end so, or in .sock."""
    for name in os.listdir(directory) if directory.is_dir() else ():
        path = directory / name
        if name.endswith(ends) and (kind := strange(path)):
            raise ConfigError(f"{path} is {kind}, where a file of this home belongs: move it away")
        if name.endswith(".sock") and path.is_dir():
            raise ConfigError(f"{path} is a directory, where a socket belongs: move it away")


def put_aside(path: Path, bad: Path) -> None:
    """Move what nobody of ours put in a place of ours into `bad`, whole, whatever it is. Raises OSError."""
    target = bad / path.name
    number = 1
    while os.path.lexists(target):
        number += 1
        target = bad / f"{path.name}.{number}"
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return  # another one did it
    log.error("what lay in the place of a file of ours was put aside path=%s to=%s", path, target)


def remove(path: Path, bad: Path) -> None:
    """Remove a file of ours, if it is there; what is no file is put aside. Raises OSError."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        put_aside(path, bad)


def clear_way(top: Path, place: Path, bad: Path) -> bool:
    """Put aside what would hold up a rename to a place below `top` for ever; False where nothing is in its way."""
    for above in reversed(place.parents):
        if top in above.parents and os.path.lexists(above) and not above.is_dir():
            put_aside(above, bad)
            return True
    if place.is_dir() and not place.is_symlink():
        put_aside(place, bad)
        return True
    return False


def size(count: int) -> str:
    """Bytes as people say them."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GiB"
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def unfit(path: Path, error: OSError) -> CombineError:
    """Why a path cannot be used, as one sentence with the remedy: to be mended, or (a full disk) to be tried later."""
    place = error.filename or path
    if passes(error):
        return RetryLater(f"{place} cannot be used now: {error.strerror}; when that is over, give the command again")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(f"{place} may not be written by user {user()}: give it the directory, or use another home")
    if error.errno == errno.EROFS:
        return ConfigError(f"{place} is on a read-only file system: use another home")
    return ConfigError(f"{place} cannot be used as a home: {error.strerror}")


def user() -> str:
    """The name of the user that this process runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _unescape(point: str) -> str:
    """A mount point as it is: the kernel writes blank, TAB, LF and backslash as three octal digits."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
