"""Several processes of one distributed program on this machine, over gloo."""

import contextlib
import os
import random
import socket
import time

import forked
from helpers import PATIENCE, ROOT

PORTS = range(20000, 32000)  # below those that the system gives to whoever asks for any: there gloo's own listeners are


def free_ports(number):
    """Ports that nobody listens at, and that no other process is given before they are used."""
    ports = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == number:
            return ports
    raise OSError(f"fewer than {number} ports are free")


def environment(**more):
    """For a process that is to find the checkout, and nothing of a launcher around this one."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PADDLE_", "PADIFF_", "FLAGS_selected"))
    }
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**environment, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def ranks(number):
    """The environments that Paddle's launcher gives to ``number`` processes."""
    master, twin, *ports = free_ports(number + 2)
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    return [
        environment(
            PADDLE_TRAINER_ID=str(rank),
            PADDLE_TRAINERS_NUM=str(number),
            PADDLE_TRAINER_ENDPOINTS=",".join(endpoints),
            PADDLE_CURRENT_ENDPOINT=endpoints[rank],
            PADDLE_MASTER=f"127.0.0.1:{master}",
            PADDLE_DISTRI_BACKEND="gloo",
            TWIN_PORT=str(twin),
        )
        for rank in range(number)
    ]


def ended(arguments, number=2):
    """How the processes end, by rank, forked from one process that has imported both frameworks."""
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(forked.started(arguments, rank, together=True, warm=True)) for rank in ranks(number)]
        until = time.monotonic() + PATIENCE
        return [end(max(1, until - time.monotonic())) for end in started]


def run(arguments, number=2):
    """Run them to their ends; their output, by rank. Fails with it if one of them failed."""
    processes = ended(arguments, number)
    assert all(process.returncode == 0 for process in processes), "\n".join(process.stdout[-3000:] for process in processes)
    return [process.stdout for process in processes]
