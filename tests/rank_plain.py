"""One rank of a training, as users have it: nothing of ours in it, unless ``with`` asks for the mode that others are held against.

``python rank_plain.py WORD``: ``train``, ``with``, ``raise``, ``killed`` (rank 1, when it has trained), ``spawn`` (starts both).
"""

import contextlib
import os
import signal
import subprocess
import sys

import paddle
import paddle.distributed as dist

# What this process has imported of ours, in itself and in one that it starts.
OURS = "print([name for name in sys.modules if name.startswith('padiff')], file=sys.stderr)"


def train():
    dist.init_parallel_env()
    paddle.seed(0)
    net = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.GELU(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4))
    layer = paddle.DataParallel(net)
    optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
    for step in range(3):
        paddle.seed(10 * step + dist.get_rank())
        loss = (layer(paddle.randn([4, 8])) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        os.write(1, f"rank {dist.get_rank()} step {step} loss {float(loss).hex()}\n".encode())


def mode(word):
    if word != "with":
        return contextlib.nullcontext()
    import padiff_shim

    return padiff_shim.reference("torch", optimizer="torch")


def main(word):
    with mode(word):
        train()
    if word == "killed" and dist.get_rank():
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "train":
        subprocess.run([sys.executable, "-c", f"import sys, paddle; {OURS}"], check=True)
    if word == "raise":
        raise ValueError(f"of rank {dist.get_rank()}")


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        dist.spawn(main, args=("spawn",), nprocs=2, backend="gloo")
    else:
        main(sys.argv[1])
