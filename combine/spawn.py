"""Forking a child from a warmed keepalive, and a keepalive from a command: the few steps whose order matters.

The parent has one thread, so a fork is safe, and a child starts in milliseconds with every module loaded. A child of
keepalive never outlives it (PR_SET_PDEATHSIG), holds none of its files, and hears only SIGTERM until it says otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable

import setproctitle

from combine.errors import EXIT_TRY_LATER, CombineError, passes

#: The exit code of a bug, as sysexits.h has it (EX_SOFTWARE): the traceback is on stderr.
EXIT_BUG = 70

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


def fork(title: str, let_go: Callable[[], None], body: Callable[[socket.socket], int]) -> tuple[int, socket.socket]:
    """Start a child that calls `let_go`, which closes what the parent holds, and then `body` with its end of a channel.

    Returns its pid and the parent's end; raises OSError where the machine gives no process.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    parent = os.getpid()
    # A signal that arrives between the fork and the child's own handlers would be written into the parent's wake-up
    # pipe.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _live(parent, title, let_go, lambda: body(_keep(theirs, ours)))
    except OSError:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
    return pid, ours


def go_on(body: Callable[[], int]) -> int:
    """Start a child that does `body` and ends with its exit code, and is no child of keepalive; returns its pid.

    Signals mean in it what they mean to a program. The caller has one thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = EXIT_BUG
    try:
        # What the caller leaves behind is never looked at again: a socket of its that was collected here would close a
        # descriptor which by then is another's.
        gc.freeze()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        code = body()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_BUG
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def keep_heap() -> None:
    """Let this process keep freed memory; to be called after the fork.

    Parsing gives back and takes again the same megabytes, which doubles its time. Where the C library has no mallopt
    nothing happens.
    """
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        for option, value in ((_M_TRIM_THRESHOLD, 512 << 20), (_M_TOP_PAD, 16 << 20), (_M_MMAP_THRESHOLD, 32 << 20)):
            mallopt(option, value)


def _keep(theirs: socket.socket, ours: socket.socket) -> socket.socket:
    ours.close()
    return theirs


def dies_with(parent: int) -> bool:
    """Have this process killed when its parent ends; False where that has ended already, and no signal will come."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def _live(parent: int, title: str, let_go: Callable[[], None], body: Callable[[], int]) -> None:
    """All of a child's life; never returns."""
    code = EXIT_BUG
    try:
        if not dies_with(parent):
            return
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Ctrl-C reaches the whole terminal group, and HUP is for those who know what to reread: keepalive orders both.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        let_go()
        setproctitle.setproctitle(title)
        code = body()
    except CombineError as error:
        print(f"{title}: {error}", file=sys.stderr)
        code = error.exit_code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_BUG
    except BaseException as error:
        if passes(error):
            print(f"{title}: {error}; it is tried again", file=sys.stderr)
            code = EXIT_TRY_LATER
            return
        # Whatever it was, this process must end here and must not go on as a second keepalive.
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
            sys.stdout.flush()
        os._exit(code)
