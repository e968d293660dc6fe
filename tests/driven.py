"""Many calls, each natively and then in a mode, in processes of their own: where one ends, the next goes on behind its call.

A script takes the number of the call that it begins with as its last argument. It says of each call how far it is, and at the end
that it is the end. (The package is not imported yet where its process is forked: calls would stay native.)
"""

import collections
import json
import os
import signal

import forked

NATIVE, IN_MODE, DONE, REFUSED, END = "natively", "in the mode", "answered", "refused", "end"  # how far a call is
FATAL = "fatal natively"


def say(number, state, text):
    """How far a call is: ``text`` is its name, or what is to be said of it when it is made."""
    print(json.dumps((number, state, text)), flush=True)


def driven(script, *arguments):
    """(lines of what differs, how often a call was how far)."""
    begin, lines, states = 0, [], collections.Counter()
    while begin >= 0:
        ended = forked.run([script, *arguments, begin], PYTHONPATH=f"{forked.ROOT}{os.pathsep}{forked.ROOT / 'tests'}")
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
