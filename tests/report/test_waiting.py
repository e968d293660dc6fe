"""A line on a terminal while something takes its time, and nothing at all in a pipe."""

import io
import threading

from helpers import PATIENCE
from rich.console import Console
from rich.progress import Progress

from padiff_shim.progress import Waiting


class Noted(io.StringIO):
    """Tells when something was written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        self.written.set()
        return super().write(text)


def test_a_terminal_says_what_is_done_and_is_clean_afterwards():
    out = Noted()
    with Waiting("reading the log", console=Console(file=out, force_terminal=True, width=80), patience=0.0):
        assert out.written.wait(PATIENCE)
    assert "reading the log" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in out.getvalue()


def test_what_is_quick_shows_nothing():
    out = Noted()
    with Waiting("reading the log", console=Console(file=out, force_terminal=True), patience=3600.0):
        pass
    assert out.getvalue() == ""


def test_each_call_of_what_is_decorated_waits_and_what_is_inside_goes_without():
    out, calls = Noted(), []

    @Waiting("outer", console=Console(file=out, force_terminal=True, width=80), patience=0.0)
    def asked():
        out.written.clear()
        with Waiting("inner", console=Console(file=out, force_terminal=True, width=80), patience=0.0):
            assert out.written.wait(PATIENCE)
        calls.append(out.getvalue().count("outer") > len(calls))

    asked(), asked()
    assert calls == [True, True]
    assert "inner" not in out.getvalue()


def test_a_progress_bar_of_somebody_keeps_the_terminal():
    out, bar = Noted(), Console(file=io.StringIO(), force_terminal=True, width=80)
    with Progress(console=bar), Waiting("inner", console=Console(file=out, force_terminal=True), patience=0.0):
        assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert out.getvalue() == ""


def test_standard_output_stays_where_it_leads(capsys):
    out = Noted()
    with Waiting("reading the log", console=Console(file=out, force_terminal=True, width=80), patience=0.0):
        assert out.written.wait(PATIENCE)
        print("data")
    assert capsys.readouterr().out == "data\n"
    assert "data" not in out.getvalue()


def test_a_pipe_gets_no_control_characters():
    out = Noted()
    with Waiting("reading the log", console=Console(file=out, force_terminal=False), patience=0.0):
        pass
    assert out.getvalue() == ""
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
