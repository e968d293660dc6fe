"""The line on the terminal: when it is drawn, and that the program's own output stays whole."""

import io
import re
import sys

import pytest
from log_data import filled, record

from padiff_shim.report import live
from padiff_shim.report.live import PATIENCE, PERIOD, Live


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def shown():
    terminal, clock = Terminal(), Clock()
    line = Live(terminal, (terminal,), clock)
    yield terminal, clock, line, filled([record()])
    line.stop()


def screen(text):
    """What a terminal shows in the end: lines, with returns and erasures carried out."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    rows = [""]
    column = 0
    for token in re.findall(r"\x1b\[2K|.", text, re.DOTALL):
        if token == "\n":
            rows.append("")
            column = 0
        elif token == "\r":
            column = 0
        elif token == "\x1b[2K":
            rows[-1] = ""
        else:
            rows[-1] = rows[-1][:column].ljust(column) + token + rows[-1][column + 1 :]
            column += 1
    return rows


def test_short_runs_show_nothing_and_long_ones_four_lines_a_second(shown):
    terminal, clock, line, run = shown
    for tick in range(100):
        clock.now = tick * PATIENCE / 101
        line.show(run.counts, record())
    assert terminal.getvalue() == ""
    for tick in range(1000):
        clock.now = PATIENCE + tick / 1000
        line.show(run.counts, record())
    assert len(terminal.getvalue().split("padiff_shim:")) - 1 == 1 / PERIOD
    assert "1 record  ROUNDING 1  encoder.layers.0.linear1" in screen(terminal.getvalue())[-1]


def test_what_the_program_prints_stays_whole(shown):
    terminal, clock, line, run = shown
    for tick in range(10):
        clock.now = PATIENCE + tick
        line.show(run.counts, record())
        print("step", tick, file=terminal)
    line.stop()
    assert screen(terminal.getvalue()) == [*(f"step {tick}" for tick in range(10)), ""]


def test_a_line_that_the_program_has_not_finished_is_left_alone(shown):
    terminal, clock, line, run = shown
    terminal.write("50 % done")
    clock.now = PATIENCE + 1
    line.show(run.counts, record())
    assert terminal.getvalue() == "50 % done"
    terminal.write("\n")
    clock.now += 1
    line.show(run.counts, record())
    assert "padiff_shim" in terminal.getvalue()


def test_it_is_gone_afterwards_and_the_stream_is_as_before(shown):
    terminal, clock, line, run = shown
    clock.now = PATIENCE + 1
    line.show(run.counts, record())
    line.stop()
    assert screen(terminal.getvalue()) == [""]
    assert "write" not in vars(terminal)
    clock.now += 9
    before = terminal.getvalue()
    line.show(run.counts, record())
    assert terminal.getvalue() == before


def test_dropping_it_gives_the_stream_back():
    terminal = Terminal()
    line = Live(terminal, (terminal,))
    assert "write" in vars(terminal)
    del line
    assert "write" not in vars(terminal)


def test_a_terminal_that_is_gone_stops_it(shown, monkeypatch):
    terminal, clock, line, run = shown
    clock.now = PATIENCE + 1
    terminal.close()
    line.show(run.counts, record())
    clock.now += 1
    line.show(run.counts, record())


def test_it_fits_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    (row,) = screen(live.line(filled([record()]).counts, record(layer="a.very.long.path." * 9)))
    assert len(row) < 40


def test_only_on_terminals(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert Live.on_terminal() is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert Live.on_terminal() is None
    monkeypatch.setenv("TERM", "xterm")
    line = Live.on_terminal()
    assert line is not None
    line.stop()
