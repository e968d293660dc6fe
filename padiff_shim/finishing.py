"""Steps that are made to their end, wherever a Ctrl-C or the signal of a timeout falls.

Such an error may come between any two calls. What opens or closes a mode must not stay half done then: calls would go on to hooks
of ours, or a mode would stay open, for the rest of the process. CPython looks for signals behind calls, where functions begin and
where loops jump back; so an assignment in a ``finally`` cannot be missed, and neither can the first call of a C function there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def finish(steps: list[Callable[[], Any]]) -> None:
    """Make all steps, taking each out of the list that is done; then raise the first error, Ctrl-C and its like before others.

    A step that an error ended is made once more, so each has to be one that may be made twice: an interrupt does not come again, an
    error of the step itself does, and is left standing.
    """
    errors: list[BaseException] = []
    failed = None
    while steps:
        try:
            while steps:
                steps[0]()
                del steps[0]
        except BaseException as error:
            errors.append(error)
            if steps and steps[0] is failed:
                del steps[0]
            elif steps:
                failed = steps[0]
    if errors:
        raise next((error for error in errors if not isinstance(error, Exception)), errors[0])
