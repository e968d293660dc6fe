"""The calls of a program, counted by function, of which one is met by something."""

import collections
import sys


class CountedCalls:
    """A tracer that meets the call ``at``: a function's code and a number. Without it calls are counted alone."""

    def __init__(self, at=None):
        self.at, self.counts = at, collections.Counter()

    def counted(self, file):
        """Whether the functions of a file are."""
        raise NotImplementedError

    @staticmethod
    def begins_in_its_try(code):
        """What comes at the beginning of such a function falls into its ``try``; but not for a tracer. See signals.in_its_try."""
        return getattr(code, "co_exceptiontable", b"")[:1] == b"\x80"

    def reached(self):
        """Meets the call; nothing is traced any more."""
        raise NotImplementedError

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event == "call" and self.counted(code.co_filename) and not self.begins_in_its_try(code):
            self.counts[code] += 1
            if (code, self.counts[code]) == self.at:
                sys.settrace(None)
                self.reached()
        return None  # noqa: RET501

    def of(self, program):
        """Run a program."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            program()
        finally:
            sys.settrace(before)
