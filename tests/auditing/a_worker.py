"""A worker that does as its ops say: it speaks the protocol of ``padiff_shim.auditing.worker`` without any framework."""

import json
import os
import pathlib
import signal
import sys
import time

out = os.fdopen(int(sys.argv[1]), "w")
CASES = ["sample 0, plain, float32", "sample 1, plain, float32", "sample 2, plain, float32"]


def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), file=out, flush=True)


if sys.argv[2] == "none":
    sys.exit(3)
if sys.argv[2] == "tpu":
    tell("refused", why="ValueError: devices are cpu and gpu\nnot tpu")
    sys.exit(0)
tell("ready", environment={"paddle": "0", "device": sys.argv[2]})
for line in sys.stdin:
    request = json.loads(line)
    if request["ask"] == "script":
        path = pathlib.Path(request["path"])
        path.parent.mkdir(exist_ok=True)
        path.write_text("import os; os.abort()" if "dies" in request["case"] else "")
        tell("written", path=path.name)
        continue
    op = request["op"]
    names = [f"{op}: {case}" for case in CASES * (1 + 2 * (op == "doomed"))]
    names = [f"{name} {number}" if op == "doomed" else name for number, name in enumerate(names)]
    behind = names[names.index(request["after"]) + 1 if request["after"] else 0 :]
    if request["ask"] == "left":
        tell("left", calls=len(behind), why=request["why"])
        continue
    for name in behind:
        tell("begin", case=name)
        if op == "doomed" and name != names[1]:
            os.kill(os.getpid(), signal.SIGSEGV)
        if op == "dies" and "sample 1" in name:
            os.kill(os.getpid(), signal.SIGSEGV)
        if op == "hangs" and "sample 1" in name:
            time.sleep(3600)
        if op == "interrupts":
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(3600)
    tell("done", calls=3, judged=3, verdicts={"EQUAL": 3}, refusals={}, native={}, warnings=[])
