"""The table of transitions: each policy of keepalive, without a process or a clock."""

from __future__ import annotations

import signal
import socket
from dataclasses import replace

import pytest

from combine.channel import Channel
from combine.config import Supervise
from combine.supervise import (
    GOOD_MINUTE_S,
    START_SILENCE_S,
    UNREAPED_S,
    Action,
    Child,
    Event,
    Exited,
    Fork,
    Note,
    Pong,
    Ready,
    Retire,
    Say,
    Send,
    Signal,
    Started,
    State,
    Stop,
    Tick,
    decide,
    describe_exit,
    parse_line,
    rules_of,
)

SUPERVISE = Supervise()
PING = Send(b"PING\n")
TERM, KILL = Signal(signal.SIGTERM), Signal(signal.SIGKILL)


def child(service: str = "scheduler") -> Child:
    return Child(service, service, 0, rules_of(service, SUPERVISE))


def after(subject: Child, *events: tuple[float, Event]) -> tuple[Child, list[Action]]:
    """Play events at their times; the actions but the sentences."""
    done: list[Action] = []
    for now, event in events:
        subject, actions = decide(subject, event, now)
        done += [action for action in actions if not isinstance(action, Say)]
    return subject, done


def running(service: str = "scheduler", at: float = 100.0) -> Child:
    return after(child(service), (at, Tick()), (at, Started(42)), (at, Ready()))[0]


def test_a_new_child_is_forked_at_the_first_tick_and_runs_when_it_says_so() -> None:
    starting, actions = after(child(), (1.0, Tick()), (1.0, Started(42)))
    assert [Fork()] == actions
    assert (State.STARTING, 42) == (starting.state, starting.pid)
    assert State.RUNNING == after(starting, (2.0, Ready()))[0].state


def test_a_ping_goes_out_when_it_is_time_and_one_at_a_time() -> None:
    subject, actions = after(running(), (104.9, Tick()))
    assert [] == actions
    subject, actions = after(subject, (105.0, Tick()), (107.0, Tick()))
    assert [PING] == actions
    subject, actions = after(subject, (107.0, Pong()), (111.9, Tick()), (112.0, Tick()))
    assert [PING] == actions


@pytest.mark.parametrize(
    ("service", "silence_s"),
    [("scheduler", SUPERVISE.silence_s), ("harvester", SUPERVISE.silence_s), ("parser", SUPERVISE.parser_silence_s)],
)
def test_silence_after_a_ping_is_answered_by_a_kill_and_a_replacement(service: str, silence_s: float) -> None:
    subject, _ = after(running(service), (105.0, Tick()))
    subject, actions = after(subject, (104.9 + silence_s, Tick()))
    assert [] == actions
    subject, actions = after(subject, (105.0 + silence_s, Tick()), (105.1 + silence_s, Tick()))
    assert [KILL] == actions
    subject, _ = after(subject, (105.2 + silence_s, Exited(-9)))
    assert State.BACKING_OFF == subject.state
    assert f"SIGKILL: silent for {silence_s:g} s" == subject.last_exit
    subject, actions = after(subject, (106.0 + silence_s, Tick()))
    assert [Fork()] == actions


def test_a_keepalive_that_slept_asks_before_it_kills() -> None:
    assert [PING] == after(running(), (5000.0, Tick()))[1]


def test_a_child_that_reads_its_journal_has_a_minute() -> None:
    starting = after(child(), (0.0, Tick()), (0.0, Started(7)), (5.0, Tick()))[0]
    assert [] == after(starting, (4.9 + START_SILENCE_S, Tick()))[1]
    assert [KILL] == after(starting, (5.0 + START_SILENCE_S, Tick()))[1]


def test_faults_wait_longer_and_longer_and_are_called_a_crash_loop() -> None:
    subject, now, waits, states = running(), 100.0, [], []
    for _ in range(7):
        subject, _ = after(subject, (now, Exited(1)))
        waits.append(round(subject.wake - now, 1))
        states.append(subject.shown_state)
        now = subject.wake
        subject, actions = after(subject, (now - 0.01, Tick()), (now, Tick()), (now, Started(8)))
        assert [Fork()] == actions
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4] == waits
    assert ["backing-off"] * 5 + ["crash loop"] * 2 == states
    assert 7 == subject.restarts
    assert "crash loop" == subject.shown_state


def test_a_crash_loop_is_said_once() -> None:
    subject, said = running(), []
    for now in range(100, 110):
        subject, actions = decide(replace(subject, state=State.RUNNING), Exited(1), float(now))
        said += [action.text for action in actions if isinstance(action, Say) and "crash loop" in action.text]
    assert ["is in a crash loop: 6 faults within a minute"] == said


def test_a_good_minute_forgives() -> None:
    subject, _ = after(running(), (101.0, Exited(1)), (102.0, Tick()), (102.0, Started(9)), (102.0, Ready()))
    assert 1 == subject.tries
    assert 0 == after(subject, (102.0 + GOOD_MINUTE_S, Tick()))[0].tries
    late = 102.0 + GOOD_MINUTE_S
    assert 0.1 == round(after(subject, (late, Exited(1)))[0].wake - late, 3)


def test_the_wait_has_a_ceiling_at_once_for_a_config_error() -> None:
    subject = replace(running(), tries=50)
    assert 100.0 + SUPERVISE.back_off_ceiling_s == after(subject, (100.0, Exited(1)))[0].wake
    assert 100.0 + SUPERVISE.back_off_ceiling_s == after(running(), (100.0, Exited(78)))[0].wake


def test_the_end_of_a_workers_life_is_no_fault() -> None:
    subject, actions = after(running("harvester"), (200.0, Exited(0)))
    assert [Fork()] == actions
    assert (State.STARTING, 0, 1, "exit 0") == (subject.state, subject.tries, subject.restarts, subject.last_exit)


@pytest.mark.parametrize("subject", [running("scheduler"), replace(running("parser"), state=State.STARTING)])
def test_an_end_unasked_of_a_daemon_or_before_it_was_ready_is_a_fault(subject: Child) -> None:
    subject, actions = after(subject, (200.0, Exited(0)))
    assert [] == actions
    assert (State.BACKING_OFF, 1) == (subject.state, subject.tries)


def test_stop_asks_then_kills_then_is_over() -> None:
    subject, actions = after(running(), (200.0, Stop()))
    assert [TERM, PING] == actions
    subject, actions = after(subject, (199.9 + SUPERVISE.stop_s, Tick()))
    assert [] == actions
    subject, actions = after(subject, (200.0 + SUPERVISE.stop_s, Tick()), (201.0 + SUPERVISE.stop_s, Tick()))
    assert [KILL] == actions
    subject, actions = after(subject, (220.0, Exited(-9)), (230.0, Tick()))
    assert [] == actions
    assert (State.STOPPED, "SIGKILL: did not stop in time") == (subject.state, subject.last_exit)


def test_stop_can_name_its_deadline_and_bring_it_forward() -> None:
    _, actions = after(running(), (200.0, Stop(203.0)), (201.0, Stop(201.0)), (201.0, Tick()))
    assert [TERM, PING, KILL] == actions


def test_stop_of_a_child_that_waits_to_be_started_is_at_once() -> None:
    subject, actions = after(running(), (200.0, Exited(1)), (200.0, Stop()), (300.0, Tick()))
    assert [] == actions
    assert State.STOPPED == subject.state


def test_retire_replaces_without_a_fault() -> None:
    subject, actions = after(running("parser"), (200.0, Retire()), (201.0, Exited(0)))
    assert [TERM, PING, Fork()] == actions
    assert (State.STARTING, 0) == (subject.state, subject.tries)


def test_a_retiring_parser_may_finish_its_page() -> None:
    subject, _ = after(running("parser"), (200.0, Retire()))
    assert [] == after(subject, (199.9 + SUPERVISE.parser_silence_s, Tick()))[1]
    assert [KILL] == after(subject, (200.0 + SUPERVISE.parser_silence_s, Tick()))[1]


def test_stop_wins_over_retire() -> None:
    subject, actions = after(running("parser"), (200.0, Retire()), (200.5, Stop()), (201.0, Exited(0)))
    assert [TERM, PING] == actions
    assert State.STOPPED == subject.state


def test_what_a_state_does_not_know_changes_nothing() -> None:
    for event in (Ready(), Pong(), Note("x"), Exited(1), Retire(), Started(5)):
        assert (child(), ()) == decide(child(), event, 5.0)


@pytest.mark.parametrize("service", ["scheduler", "parser"])
def test_due_is_when_a_tick_acts_and_never_later(service: str) -> None:
    """Ticking only at `due` gives the same life as ticking all the time."""
    subject, now = child(service), 0.0
    seen: list[Action] = []
    for _ in range(3):
        now = max(now, subject.due())
        subject, actions = after(subject, (now, Tick()))
        assert actions, subject
        seen += actions
        if Fork() in actions:
            subject, _ = after(subject, (now, Started(5)), (now, Ready()))
    assert [Fork(), PING, KILL] == seen
    assert float("inf") == subject.due()


def test_a_killed_child_that_stays_makes_keepalive_unwell() -> None:
    subject = replace(running(), killed=50.0)
    assert not subject.is_stuck(49.9 + UNREAPED_S)
    assert subject.is_stuck(50.0 + UNREAPED_S)


@pytest.mark.parametrize(
    ("event", "reason", "text"),
    [
        (Exited(0), "", "exit 0"),
        (Exited(78), "", "exit 78"),
        (Exited(-11), "", "SIGSEGV"),
        (Exited(-9), "silent for 10 s", "SIGKILL: silent for 10 s"),
        (Exited(-99), "", "signal 99"),
        (Exited(1, "no process: Cannot allocate memory"), "", "no process: Cannot allocate memory"),
    ],
)
def test_an_end_has_words(event: Exited, reason: str, text: str) -> None:
    assert text == describe_exit(event, reason)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b"READY", Ready()),
        (b"PONG", Pong()),
        (b"NOTE waiting for idbd", Note("waiting for idbd")),
        (b"NOTE ", Note("")),
        (b"NOTE a\x1b[31m\xff", Note("a[31m\ufffd")),
        (b"PING", None),
        (b"", None),
        (b"ready", None),
    ],
)
def test_lines_of_a_child(line: bytes, event: Event | None) -> None:
    assert event == parse_line(line)


class TestChannel:
    def pair(self) -> tuple[socket.socket, Channel]:
        parent, theirs = socket.socketpair()
        parent.settimeout(5)
        return parent, Channel(theirs)

    def test_ready_note_and_pong(self) -> None:
        parent, channel = self.pair()
        channel.note("waiting for idbd")
        channel.note("waiting for idbd")
        channel.note("a\nREADY")
        channel.ready()
        parent.send(b"PI")
        assert channel.answer_pings()
        parent.send(b"NG\nPING\nnonsense\n")
        assert channel.answer_pings()
        assert b"NOTE waiting for idbd\nNOTE a READY\nNOTE \nREADY\nPONG\nPONG\n" == parent.recv(1000)
        parent.close()
        channel.close()

    def test_a_parent_that_is_gone_means_stop(self) -> None:
        parent, channel = self.pair()
        parent.close()
        assert not channel.answer_pings()
        assert not channel.answer_pings()
        channel.ready()
        channel.note("nobody hears this")
        channel.close()
        assert not channel.answer_pings()

    def test_a_parent_that_does_not_read_does_not_stop_a_child(self) -> None:
        parent, channel = self.pair()
        for number in range(10_000):
            channel.note(f"{number} {'x' * 2000}")
        assert channel.answer_pings()
        assert all(len(line) < 1000 for line in parent.recv(100_000).split(b"\n"))
        parent.close()
        channel.close()
