"""What reaches a terminal, and what a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from combine.cli import screen


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class _Full(io.StringIO):
    encoding = "utf-8"

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


HOSTILE = "a\x1b]0;title\x07b\r\x9bc\u202ed\u2028e\ttab\nline"
SHOWN = "a\\x1b]0;title\\x07b\\x0d\\x9bc\\x202ed\\x2028e\ttab\nline"


def test_control_characters_are_made_visible() -> None:
    assert SHOWN == screen.clean(HOSTILE)
    assert "a b" == screen.one_line("a\n\t b")


def test_a_terminal_is_kept_from_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    screen.put(HOSTILE)
    screen.put_bytes(b"\xff\x1b")
    assert SHOWN + "\ufffd\\x1b" == terminal.getvalue()


@pytest.mark.parametrize(("setting", "said"), [("", "\x1b[31mbad\x1b[0m"), ("1", "bad")])
def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch, setting: str, said: str) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", setting)
    screen.put_coloured("bad", 31)
    assert said == terminal.getvalue()


def test_a_pipe_gets_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", pipe)
    screen.put(HOSTILE)
    screen.put_bytes(b"\xff\x1b")
    screen.put_coloured("x", 31)
    pipe.flush()
    assert HOSTILE.encode() + b"\xff\x1bx" == pipe.buffer.getvalue()


def test_a_sentence_survives_any_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", stderr)
    screen.say("ä\x1b")
    assert b"?\\x1b\n" == stderr.buffer.getvalue()
    monkeypatch.setattr(sys, "stderr", _Full())
    screen.say("lost")


def test_pairs_stand_in_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", pipe)
    screen.put_pairs({"a": "1", "long": "2"})
    screen.put_pairs([])
    assert b"a     1\nlong  2\n" == pipe.buffer.getvalue()
