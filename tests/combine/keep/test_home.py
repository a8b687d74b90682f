from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shlex import quote

import pytest

from combine import config
from combine.config import Settings
from combine.errors import CombineError, ConfigError, RetryLater
from combine.keep import home as homes
from combine.keep import places
from combine.keep.home import Home, create, find, is_home, lock, open_home, room, who_holds
from tests.combine.keep.faults import FaultyDisk

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /srv/my\\040share rw - nfs4 server:/export rw
31 22 0:27 / /srv/other rw shared:2 master:3 - fuse.sshfs me@there:/ rw
32 22 0:28 / /data rw - cifs //box/data rw
33 22 0:29 / /data rw - tmpfs tmpfs rw
34 30 0:30 / /srv/my\\040share/local rw - xfs /dev/sdb rw
not a mount at all
"""


@pytest.mark.parametrize(
    ("option", "environ", "cwd_is_home", "expected"),
    [
        (None, {}, False, "cwd/harvest"),
        (None, {}, True, "cwd"),
        (None, {"COMBINE_HOME": "/else/where"}, True, "/else/where"),
        (None, {"COMBINE_HOME": ""}, False, "cwd/harvest"),
        ("/given", {"COMBINE_HOME": "/else/where"}, True, "/given"),
        ("relative/../x", {}, False, "cwd/x"),
    ],
)
def test_find_asks_option_environment_and_directory_in_turn(
    tmp_path: Path, option: str | None, environ: dict[str, str], cwd_is_home: bool, expected: str
) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    if cwd_is_home:
        create(cwd)
    assert tmp_path / expected == find(option, environ, cwd)


def test_create_makes_a_whole_home_with_a_private_run_directory(tmp_path: Path) -> None:
    home = create(tmp_path / "deep" / "er")
    assert is_home(home.path)
    assert "combine-home 1\n" == home.format_file.read_text()
    assert all(directory.is_dir() for directory in home.directories())
    assert 0o700 == home.run.stat().st_mode & 0o777
    assert Settings() == config.load(home.path)
    assert home == open_home(home.path, {})


def test_the_first_settings_are_those_of_etc(home: Home) -> None:
    here = Path(__file__).resolve().parents[3] / "etc" / "combine.toml"
    assert here.read_text() == home.config_file.read_text()


def test_the_first_settings_can_be_uncommented(home: Home) -> None:
    lines = home.config_file.read_text().split("\n")
    home.config_file.write_text(
        "\n".join(line.removeprefix("# ") if "=" in line or "[[" in line else line for line in lines)
    )
    assert 5.0 == config.load(home.path).site[0].delay_s


def test_create_completes_a_home_and_keeps_what_is_there(home: Home) -> None:
    home.config_file.write_text("[agent]\n")
    home.spool_bad.rmdir()
    assert home == create(home.path)
    assert "[agent]\n" == home.config_file.read_text()
    assert home.spool_bad.is_dir()


def test_create_refuses_a_directory_of_others(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="holds other files and is not a home"):
        create(tmp_path)
    assert ["thesis.tex"] == os.listdir(tmp_path)


def test_create_refuses_a_directory_that_only_looks_like_a_home(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="holds other files and is not a home"):
        create(tmp_path)


def test_a_fault_at_any_call_of_create_is_mended_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk(monkeypatch)
    for call in range(1, 100):
        path = tmp_path / str(call)
        disk.arm(call, errno.ENOSPC)
        sentence = _sentence(path)
        if not sentence:
            break
        assert "No space left on device; when that is over, give the command again" in sentence
        disk.arm(0, 0)
        assert Settings() == config.load(create(path).path)
        assert not list(path.rglob("*.fresh"))
    assert call > 15


def _sentence(path: Path) -> str:
    try:
        create(path)
    except CombineError as error:
        return str(error)
    return ""


def test_create_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="cannot be used as a home: File exists"):
        create(tmp_path / "f")


def test_open_names_the_command_that_makes_a_home(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", tmp_path / "new one", Path("/dev/null")):
        with pytest.raises(ConfigError, match=f"is not a home; make one with: combine init {quote(str(path))}$"):
            open_home(path, {})


def test_open_refuses_another_format(home: Home) -> None:
    home.format_file.write_text("combine-home 2\n")
    with pytest.raises(ConfigError, match=r"says 'combine-home 2' and this program knows 'combine-home 1'"):
        open_home(home.path, {})


def test_open_makes_directories_that_a_backup_left_out(home: Home) -> None:
    home.tmp.rmdir()
    open_home(home.path, {})
    assert home.tmp.is_dir()


def test_a_reader_needs_no_more_than_the_format(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert home == open_home(home.path, {}, write=False)


def test_open_says_which_user_may_not_write(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != home.hdb)
    with pytest.raises(ConfigError, match=f"{home.hdb} may not be written by user {places.user()}"):
        open_home(home.path, {})


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (errno.EROFS, ConfigError, "is on a read-only file system: use another home"),
        (errno.ENOSPC, RetryLater, "cannot be used now: No space left on device; when that is over, give the command"),
        (errno.EIO, RetryLater, "cannot be used now: Input/output error"),
        (errno.EACCES, ConfigError, "may not be written by user"),
        (errno.ENOTDIR, ConfigError, "cannot be used as a home: Not a directory"),
    ],
)
def test_an_error_of_the_disk_is_one_sentence(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[CombineError], sentence: str
) -> None:
    home.log.rmdir()

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(kind, match=sentence):
        open_home(home.path, {})
    with pytest.raises(kind, match=sentence):
        create(home.path)


def test_a_read_only_file_system_is_told_from_a_foreign_directory(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda path: ReadOnly)
    with pytest.raises(ConfigError, match="read-only file system"):
        open_home(home.path, {})


def test_a_socket_path_too_long_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    base = len(os.fsencode(tmp_path / "x" / "run" / "scheduler.sock")) - 1
    fits = tmp_path / ("x" * (homes.SOCKET_PATH_BYTES - base))
    assert 107 == len(os.fsencode(open_home(create(fits).path, {}).socket("scheduler")))
    too_long = tmp_path / ("x" * (homes.SOCKET_PATH_BYTES - base + 1))
    with pytest.raises(ConfigError, match="has 108 bytes and a socket's path at most 107"):
        create(too_long)
    assert not too_long.exists()


def test_the_length_of_a_socket_path_is_counted_in_bytes(tmp_path: Path) -> None:
    base = len(os.fsencode(tmp_path / "x" / "run" / "scheduler.sock")) - 1
    with pytest.raises(ConfigError, match="has 108 bytes"):
        create(
            tmp_path
            / ("ž" * ((homes.SOCKET_PATH_BYTES - base) // 2) + "x" * (1 + (homes.SOCKET_PATH_BYTES - base) % 2))
        )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me", "ext4"),
        ("/srv/my share/x", "nfs4"),
        ("/srv/my share", "nfs4"),
        ("/srv/my shares", "ext4"),
        ("/srv/my share/local/h", "xfs"),
        ("/srv/other/h", "fuse.sshfs"),
        ("/data/h", "tmpfs"),
    ],
)
def test_the_deepest_and_latest_mount_tells_the_file_system(path: str, expected: str) -> None:
    assert expected == places.file_system(Path(path), MOUNTS)


def test_no_mount_table_tells_nothing() -> None:
    assert "" == places.file_system(Path("/x"), "")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "ceph", "lustre", "afs"])
def test_a_network_file_system_is_refused_by_name(home: Home, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(places, "file_system_of", lambda path: kind)
    for action in (open_home, create):
        with pytest.raises(ConfigError, match=f"network file system \\({kind}\\)"):
            action(home.path)


def test_the_present_system_is_not_a_network(tmp_path: Path) -> None:
    assert places.file_system_of(tmp_path / "not" / "yet") not in ("", "nfs4")


def test_sockets_lie_in_run_or_where_the_service_manager_says(home: Home, tmp_path: Path) -> None:
    assert home.run / "scheduler.sock" == home.socket("scheduler")
    given = tmp_path / "given"
    given.mkdir()
    open_home(home.path, {"RUNTIME_DIRECTORY": f"{given}:/run/second"})
    assert given / "scheduler.sock" == home.socket("scheduler")
    # Known to commands outside the service, and repeated by its other units.
    open_home(home.path, {})
    open_home(home.path, {"RUNTIME_DIRECTORY": str(given)})
    assert given / "idbd.sock" == Home(home.path).socket("idbd")
    assert home.run / "scheduler.pid" == home.pid_file("scheduler")
    # The manager removes its directory at the stop; then a start by hand uses run/ again.
    given.rmdir()
    assert home.run / "idbd.sock" == home.socket("idbd")


def test_a_second_start_says_who_runs(home: Home) -> None:
    with lock(home, "scheduler") as held:
        assert held.fileno() == held.descriptor
        with pytest.raises(
            ConfigError, match=rf"scheduler runs already on {home.path} \(pid {os.getpid()}, since 20..-.*Z\)"
        ):
            lock(home, "scheduler")
        lock(home, "idbd").close()
    lock(home, "scheduler").close()


def test_a_lock_goes_with_its_holder(home: Home) -> None:
    code = (
        "import sys, pathlib; from combine.keep.home import Home, lock\n"
        "held = lock(Home(pathlib.Path(sys.argv[1])), 'scheduler'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(ConfigError, match=f"pid {holder.pid}"):
            lock(home, "scheduler")
        holder.kill()
        holder.wait()
    lock(home, "scheduler").close()


def test_a_pid_file_of_junk_names_nobody(home: Home) -> None:
    home.pid_file("idbd").write_text("what\n")
    assert (0, "unknown") == who_holds(home.pid_file("idbd"))
    assert (0, "unknown") == who_holds(home.pid_file("nobody"))
    with lock(home, "idbd"):
        assert os.getpid() == who_holds(home.pid_file("idbd"))[0]


def test_a_lock_in_a_home_without_run_is_a_sentence(home: Home) -> None:
    home.run.rmdir()
    with pytest.raises(ConfigError, match="cannot be used as a home: No such file"):
        lock(home, "idbd")


class Disk:
    """A statvfs answer: 100 GiB and a million inodes, all free."""

    f_frsize = 4096
    f_blocks = 100 * config.GIB // 4096
    f_bavail = f_blocks
    f_files = 1_000_000
    f_favail = 1_000_000


@pytest.mark.parametrize(
    ("disk", "spool_bytes", "sentence"),
    [
        ({}, 0, ""),
        ({"f_bavail": 10}, 0, "has 40 KiB left and 1.0 GiB are kept free"),
        # 5 % of a small disk is less than the setting.
        ({"f_blocks": 2560, "f_bavail": 128}, 0, ""),
        ({"f_blocks": 2560, "f_bavail": 127}, 0, "has 508 KiB left and 512 KiB are kept free"),
        ({"f_favail": 49_999}, 0, "has 49999 inodes left and 50000 are kept"),
        # btrfs counts no inodes.
        ({"f_files": 0, "f_favail": 0}, 0, ""),
        ({}, 3000, "the spool holds 2 KiB, its limit is 1 KiB"),
    ],
)
def test_room_says_what_is_short(
    home: Home, monkeypatch: pytest.MonkeyPatch, disk: dict[str, int], spool_bytes: int, sentence: str
) -> None:
    settings = Settings(keep=replace(Settings().keep, spool_bytes=2000 if spool_bytes else config.GIB))
    monkeypatch.setattr(os, "statvfs", lambda path: type("Small", (Disk,), disk))
    (home.spool_cur / "parser-1").mkdir()
    for directory in (home.spool_new, home.spool_cur / "parser-1"):
        (directory / "b.hrf").write_bytes(b"x" * (spool_bytes // 2))
    left = room(home, settings)
    assert spool_bytes == left.spool_bytes
    assert (not sentence) == left.ok
    assert sentence in left.sentence


def test_room_looks_at_the_real_disk(home: Home) -> None:
    left = room(home, Settings())
    assert left.free_bytes > 0
    assert 0 == left.spool_bytes


@pytest.mark.parametrize("name", ["cabin", "robots", "hdb", "hrf/new"])
def test_a_file_in_the_place_of_a_directory_is_named(home: Home, name: str) -> None:
    place = home.path / name
    place.rmdir()
    place.write_bytes(b"")
    with pytest.raises(ConfigError, match=f"{name} is no directory: move it away"):
        open_home(home.path, {})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "is a named pipe"),
        (lambda path: path.write_text("a = " + "[" * 5000), "nested too deep"),
        (lambda path: path.write_bytes(b"\xff"), "is not TOML"),
    ],
    ids=["pipe", "nested", "binary"],
)
def test_settings_that_are_none_are_named(home: Home, make: Callable[[Path], object], told: str) -> None:
    home.config_file.unlink()
    make(home.config_file)
    with pytest.raises(ConfigError, match=told):
        config.load(home.path)


def test_a_format_that_is_a_named_pipe_is_not_waited_for(home: Home) -> None:
    home.format_file.unlink()
    os.mkfifo(home.format_file)
    with pytest.raises(ConfigError, match="is a named pipe"):
        open_home(home.path, {})
    with pytest.raises(ConfigError, match="is a named pipe"):
        create(home.path)


@pytest.mark.parametrize(
    "name",
    ["run/cabin.pid", "run/parser-1.slot", "run/hdb.status", "run/yielded", "log/cabin.out", "idb/visits.sqlite"],
)
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "is a named pipe, where a file"),
        (Path.mkdir, "is a directory, where a file"),
        (lambda path: path.symlink_to("nowhere"), "is a link that leads to no file, where a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is no file, where a file"),
    ],
    ids=["pipe", "directory", "dangling", "device"],
)
def test_what_is_in_the_place_of_a_file_is_named(
    home: Home, name: str, make: Callable[[Path], None], told: str
) -> None:
    make(home.path / name)
    with pytest.raises(ConfigError, match=f"{name} {told} of this home belongs: move it away"):
        open_home(home.path, {})


def test_links_to_files_and_other_names_are_let_be(home: Home) -> None:
    (home.run / "notes").mkdir()
    (home.idb / "elsewhere").write_bytes(b"")
    (home.idb / "visits.sqlite").symlink_to("elsewhere")
    open_home(home.path, {})


def test_a_directory_in_the_place_of_a_socket_is_named(home: Home) -> None:
    (home.run / "logd.sock").mkdir()
    with pytest.raises(ConfigError, match=r"logd.sock is a directory, where a socket belongs"):
        open_home(home.path, {})


def test_a_directory_that_is_a_link_to_nowhere_is_named(home: Home) -> None:
    home.raw.rmdir()
    home.raw.symlink_to("/nowhere/raw")
    with pytest.raises(ConfigError, match="raw leads to /nowhere/raw, where no directory is: mount or make that"):
        open_home(home.path, {})
