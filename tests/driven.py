"""Many calls, each natively and then in a mode, in processes of their own: where one ends, the next goes on behind its call.

A script takes the number of the call that it begins with as its last argument. It says of each call how far it is, and at the end
that it is the end.
"""

import collections
import ctypes
import json
import os
import signal
import warnings

import forked
import paddle

import padiff_shim

NATIVE, IN_MODE, DONE, REFUSED, END = "natively", "in the mode", "answered", "refused", "end"  # how far a call is
FATAL = "fatal natively"
UNWRITTEN = "natively it holds what lies in memory"
LIBC, M_PERTURB = ctypes.CDLL(None), -6  # malloc.h


def say(number, state, text):
    """How far a call is: ``text`` is its name, or what is to be said of it when it is made."""
    print(json.dumps((number, state, text)), flush=True)


def driven(script, *arguments):
    """(lines of what differs, how often a call was how far)."""
    begin, lines, states = 0, [], collections.Counter()
    while begin >= 0:
        ended = forked.run([script, *arguments, begin], PYTHONPATH=f"{forked.ROOT}{os.pathsep}{forked.ROOT / 'tests'}", warm=True)
        output = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
        if not output or (ended.returncode >= 0 and output[-1][1] != END):
            raise RuntimeError(ended.stderr[-3000:])
        number, state, name = output[-1]
        lines += [text for _, done, text in output if done in (DONE, REFUSED) and text]
        if state == IN_MODE:
            lines.append(f"{name}: ends with {signal.Signals(-ended.returncode).name} in the mode alone")
        states.update([done for _, done, _ in output if done in (DONE, REFUSED)] + [FATAL] * (state == NATIVE))
        begin = number + 1 if state != END else -1
    return lines, states


def outcome(call, fill):
    """What the call gives where new memory is filled with a byte, or the type of its error."""
    LIBC.mallopt(M_PERTURB, fill)
    try:
        return call.outcome()
    except Exception as error:
        return type(error)


def made(calls, mode, difference, begin, *, exact, seconds=0):
    """In a process of its own: each call natively, then in the mode. Lines say how far which call is, and what differs.

    ``calls``: (name, what makes the call). ``difference(call, native, other, exact)``: in what both outcomes differ, if they do.
    ``seconds``: that a call may take natively before it ends the process; in the mode, five times as long.
    """
    warnings.simplefilter("ignore")
    paddle.disable_signal_handler()
    padiff_shim.install()
    for number, (name, make) in enumerate(calls):
        if number < begin:
            continue
        say(number, NATIVE, name)
        signal.alarm(seconds)
        call = make()
        native = outcome(call, 0x55)
        say(number, IN_MODE, name)
        signal.alarm(5 * seconds)
        with mode():
            other = outcome(make(), 0x55)
        differs = difference(call, native, other, exact=exact)
        if differs:
            say(number, NATIVE, name)
            if difference(call, native, outcome(make(), 0xAA), exact=True):
                differs = UNWRITTEN
        say(number, REFUSED if isinstance(native, type) else DONE, f"{name}: {differs}" if differs else "")
    say(-1, END, "")


def main(script, make, mode, part, parts, begin=None):
    """A script's command line: all calls of a part; with ``begin``, in this process those from that number on, by ``make``."""
    if begin is not None:
        make(mode, int(part), int(parts), int(begin))
        return
    lines, states = driven(script, mode, part, parts)
    print(*lines, dict(states), sep="\n")
