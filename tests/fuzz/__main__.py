"""``python -m fuzz --programs 200``: draw programs; run each natively, under both modes, under a schedule of modes, and in Torch.

The programs run in a child process. Exit status 1 with the smallest program found that differs, or with the one that killed
the child.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--length", type=int, default=16, help="lines of a program")
    parser.add_argument("--seed", type=int, help="default: the same programs every time")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)  # where the running program is written
    return parser.parse_args()


def supervised() -> int:
    """Run the same command in a child; if it dies, show what it was running."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "running")
        done = subprocess.run(
            [sys.executable, "-m", "fuzz", *sys.argv[1:], "--child", str(progress)], stderr=subprocess.PIPE, text=True
        )
        if done.returncode not in (0, 1):
            print(done.stderr[-3000:])
            print(f"the process ended with status {done.returncode} while it ran")
            print(progress.read_text() if progress.exists() else "nothing")
        return int(done.returncode != 0)


def fuzz(wanted: argparse.Namespace) -> int:
    """Draw and check programs; print the counts, and the smallest failure."""
    from . import check, generate

    counts: dict[str, int] = {}

    def programs(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1)) if n > 1 else 0

        program = generate.Program(choose, check.Progress(wanted.child))
        lines = program.draw(wanted.length)
        check.check(lines, generate.schedule(choose, len(lines)), counts, program.progress)
        counts["programs"] = counts.get("programs", 0) + 1

    test = given(st.data())(programs)
    if wanted.seed is not None:
        test = seed(wanted.seed)(test)
    test = settings(
        max_examples=wanted.programs,
        deadline=None,
        database=None,
        derandomize=wanted.seed is None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )(test)
    try:
        with check.quiet():
            test()
    except AssertionError as error:
        print(error)
        return 1
    finally:
        for reason, count in sorted(counts.items()):
            print(f"{count:6}  {reason}")
    return 0


if __name__ == "__main__":
    given_ = options()
    sys.exit(fuzz(given_) if given_.child else supervised())
