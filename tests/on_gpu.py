"""What the shim does on a CUDA device, step by step: ``python tests/on_gpu.py`` (``--device cpu`` tries the script).

Nothing here needs a CUDA kernel of Paddle's own but for ``matmul`` (cuBLAS): a wheel may hold none for the card. Tensors are
made on the host and copied, models are built on the CPU and moved. Each step prints one line; the steps of the op table
(``on_gpu_table.py``) print what differs, too. The status is 1 if anything fails.
"""

import argparse
import functools
import os
import sys
import threading
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
import torch
from on_gpu_table import dtype_name, host, on_gpu, same, short, table, torch_device, values

import padiff_shim
from padiff_shim.frameworks.memory import stream_of, to_paddle, to_torch

RATE = 0.013  # no number of float32
STEPS = {}  # name -> function, in the order in which they are run


def step(name):
    """Make a function a step: what it returns is printed, what it raises is a failure."""

    def register(function):
        STEPS[name] = function
        return function

    return register


def wait():
    """Until the device has done all that is queued."""
    if on_gpu():
        torch.cuda.synchronize()
        paddle.device.synchronize()


def seconds(function, repetitions, *, warm):
    """Of one call, in the best of three rounds."""
    rounds = []
    for _ in range(3):
        for _ in range(warm):
            function()
        wait()
        begin = time.perf_counter()
        for _ in range(repetitions):
            function()
        wait()
        rounds.append((time.perf_counter() - begin) / repetitions)
    return min(rounds)


def there(array):
    """Torch's tensor on the device."""
    return torch.tensor(array, device=torch_device())


# Models in both frameworks.


def models(build):
    """A Paddle net and its Torch twin with equal weights on the device; ``build`` takes the module of layers."""
    device = paddle.get_device()
    paddle.set_device("cpu")
    paddle.seed(1)
    net, twin = build(paddle.nn), build(torch.nn)
    states = [state for name, state in twin.state_dict().items() if "num_batches" not in name]
    for mine, theirs in zip(net.state_dict().values(), states, strict=True):
        with torch.no_grad():
            theirs.copy_(torch.tensor(mine.numpy().T.copy() if mine.ndim == 2 else mine.numpy()))
    paddle.set_device(device)
    return net.to(device=device), twin.to(torch_device())


def unequal(net, twin, *, grads=False):
    """The names of the parameters that differ, or whose gradients do."""
    names = []
    parameters = [(name, mine) for name, mine in net.named_parameters() if not mine.stop_gradient]  # 2.6 has statistics, too
    for (name, mine), theirs in zip(parameters, twin.parameters(), strict=True):
        mine, theirs = (mine.grad, theirs.grad) if grads else (mine, theirs)
        if mine is None and theirs is None:
            continue
        if not same(mine, theirs) and not same(paddle.to_tensor(host(mine).T.copy(), place="cpu"), theirs):
            names.append(name)
    return names


def perceptron(nn):
    return nn.Sequential(nn.Linear(7, 13), nn.GELU(), nn.LayerNorm(13), nn.Linear(13, 5))


def convolutional(nn):
    ours = nn is paddle.nn
    first = nn.Conv2D(3, 8, 3, padding=1) if ours else nn.Conv2d(3, 8, 3, padding=1)
    norm, pool = (nn.BatchNorm2D(8), nn.MaxPool2D(2)) if ours else (nn.BatchNorm2d(8), nn.MaxPool2d(2))
    return nn.Sequential(first, norm, nn.ReLU(), pool, nn.Flatten(), nn.Linear(8 * 8 * 8, 10))


def wide(nn):
    return nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512))])


def losses(mine, theirs, classes, seed):
    """Those of both nets' results."""
    if classes is None:
        return (mine * mine).mean(), (theirs * theirs).mean()
    labels = np.random.default_rng(seed).integers(0, classes, mine.shape[0])
    loss = paddle.nn.functional.cross_entropy(mine, paddle.to_tensor(labels))
    return loss, torch.nn.functional.cross_entropy(theirs, there(labels))


def fill_on_host():
    """What an optimizer begins with is written by a kernel of Paddle's own; here it is copied from the host."""
    add = paddle.optimizer.Optimizer._add_accumulator

    def filled(self, name, param, dtype=None, fill_value=0.0, **options):
        state = add(self, name, param, dtype=dtype, fill_value=fill_value, **options)
        state.set_value(np.full(state.shape, fill_value, "float32"))
        return state

    paddle.optimizer.Optimizer._add_accumulator = filled


def set_rate(optimizer):
    """The learning rate as a tensor that no kernel of Paddle's own has written."""
    optimizer._create_global_learning_rate()
    rate = optimizer._global_learning_rate()
    rate.set_value(np.full(rate.shape, RATE, "float32"))


def train(net, twin, optimizer, other, shape, classes=None, steps=4):
    """Train both, Paddle's under the reference; the first difference is an error."""
    set_rate(optimizer)
    with padiff_shim.reference("torch", definitions="torch") as run:
        for number in range(steps):
            x = values(*shape, seed=number)
            loss, twin_loss = losses(net(paddle.to_tensor(x)), twin(there(x)), classes, number)
            loss.backward()
            twin_loss.backward()
            different = [] if same(loss, twin_loss) else ["loss"]
            different += [f"gradient of {name}" for name in unequal(net, twin, grads=True)]
            optimizer.step()
            other.step()
            optimizer.clear_grad()
            other.zero_grad()
            different += unequal(net, twin)
            assert not different, f"step {number}: {different}; native: {dict(run.native)}"
    assert not run.native, f"native: {dict(run.native)}"
    return f"{steps} steps, loss, gradients and weights bit for bit; {sum(run.substituted.values())} calls"


# The steps.


@step("versions")
def versions():
    card = (torch.cuda.get_device_name(), torch.cuda.get_device_capability()) if on_gpu() else "cpu"
    return f"paddle {paddle.__version__} (CUDA {paddle.version.cuda()}), torch {torch.__version__}, numpy {np.__version__}, {card}"


@step("pointers")
def pointers():
    for dtype in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool"):
        array = (values(3, 4) * 9).astype(dtype)
        mine = paddle.to_tensor(array)
        assert to_torch(mine).data_ptr() == mine.data_ptr(), dtype
        assert same(mine, to_torch(mine)), dtype
        back = to_paddle(there(array))
        assert same(back, torch.tensor(array)), f"{dtype} to Paddle"
        assert str(back.place).startswith("Place(gpu") == on_gpu(), back.place
    twin = there(values(3, 4))
    return f"Torch sees Paddle's memory in 7 dtypes; Paddle sees Torch's: {to_paddle(twin).data_ptr() == twin.data_ptr()}"


@step("views")
def views():
    array = values(4, 6)
    whole = paddle.to_tensor(array)
    transposed = whole.transpose([1, 0])
    assert np.array_equal(host(to_torch(transposed)), array.T)
    assert np.array_equal(host(to_torch(whole[1:3])), array[1:3])
    assert np.array_equal(host(to_paddle(there(array).t())), array.T)
    return f"transposed: stride {to_torch(transposed).stride()}"


@step("stream")
def stream():
    if not on_gpu():
        return "no device"
    before = torch.cuda.current_stream().cuda_stream
    with stream_of(torch.device("cuda", 0)):
        inside = torch.cuda.current_stream().cuda_stream
    assert inside == paddle.device.cuda.current_stream().cuda_stream
    assert torch.cuda.current_stream().cuda_stream == before
    return f"Torch's kernels go to Paddle's stream {inside:#x}"


@step("forward and backward")
def forward_and_backward():
    net, twin = models(perceptron)
    x = values(6, 7)
    with padiff_shim.reference("torch") as run:
        loss = (net(paddle.to_tensor(x)) ** 2).mean()
        loss.backward()
    other = (twin(there(x)) ** 2).mean()
    other.backward()
    assert same(loss, other), (host(loss), host(other))
    assert not unequal(net, twin, grads=True), unequal(net, twin, grads=True)
    return f"{run.substituted} and {run.backward}; native {dict(run.native)}"


def training(name, twin_name, options):
    net, twin = models(perceptron)
    mine = getattr(paddle.optimizer, name)(learning_rate=RATE, parameters=net.parameters(), **options)
    theirs = getattr(torch.optim, twin_name)(twin.parameters(), lr=RATE, **options)
    return train(net, twin, mine, theirs, (6, 7))


step("training with SGD")(functools.partial(training, "SGD", "SGD", {}))
step("training with Momentum")(functools.partial(training, "Momentum", "SGD", {"momentum": 0.9}))
step("training with Adam")(functools.partial(training, "Adam", "Adam", {}))
step("training with AdamW")(functools.partial(training, "AdamW", "AdamW", {"weight_decay": 0.02}))


@step("training a convolutional net")
def training_convolutional():
    net, twin = models(convolutional)
    torch.backends.cudnn.deterministic = True
    mine = paddle.optimizer.Momentum(RATE, 0.9, net.parameters())
    theirs = torch.optim.SGD(twin.parameters(), lr=RATE, momentum=0.9)
    return train(net, twin, mine, theirs, (4, 3, 16, 16), classes=10)


@step("random numbers")
def random_numbers():
    x, device = values(64, 64), torch_device()
    chances = np.abs(x) % 1
    calls = {
        "rand": (lambda: paddle.rand([100, 7]), lambda: torch.rand(100, 7, device=device)),
        "randn": (lambda: paddle.randn([100, 7]), lambda: torch.randn(100, 7, device=device)),
        "randint": (lambda: paddle.randint(0, 99, [50]), lambda: torch.randint(0, 99, [50], device=device)),
        "randperm": (lambda: paddle.randperm(50), lambda: torch.randperm(50, device=device)),
        "dropout": (
            lambda: paddle.nn.functional.dropout(paddle.to_tensor(x), 0.3),
            lambda: torch.nn.functional.dropout(there(x), 0.3),
        ),
        "bernoulli": (lambda: paddle.bernoulli(paddle.to_tensor(chances)), lambda: torch.bernoulli(there(chances))),
    }
    different = []
    for name, (ours, theirs) in calls.items():
        with padiff_shim.reference("torch", random="torch"):
            paddle.seed(7)
            mine = [ours(), ours()]
        torch.manual_seed(7)
        if not all(same(drawn, theirs()) for drawn in mine):
            different.append(name)
    assert not different, different
    return f"{len(calls)} kinds drawn twice from one seed, Torch's numbers"


@step("attention")
def attention():
    if not on_gpu():
        return "2.6 has a causal one on a device alone"
    query = values(2, 5, 4, 8).astype("float16")  # natively a device has no other
    with padiff_shim.reference("torch"):
        mine = paddle.to_tensor(query)
        mine = paddle.nn.functional.scaled_dot_product_attention(mine, mine, mine, dropout_p=0.0, is_causal=True)
    side = there(query).transpose(1, 2)
    theirs = torch.nn.functional.scaled_dot_product_attention(side, side, side, is_causal=True).transpose(1, 2).contiguous()
    assert same(mine, theirs)
    return "scaled_dot_product_attention, causal"


def native_dtype(net, x, cast):
    """The dtype of a net's result under Paddle's own autocast, for which its kernels need not work; or why there is none."""
    try:
        with paddle.no_grad(), cast():
            return dtype_name(net(paddle.to_tensor(x)))
    except Exception as error:
        return f"none: {short(error, 100)}"


def autocast(level, low):
    net, twin = models(perceptron)
    x = values(6, 7)
    cast = functools.partial(paddle.amp.auto_cast, level=level, dtype=low)
    native = native_dtype(net, x, cast)
    with padiff_shim.reference("torch") as run:
        with cast():
            mine = net(paddle.to_tensor(x))
        (mine.astype("float32") ** 2).mean().backward()
    with torch.autocast(torch_device(), dtype=getattr(torch, low)):
        theirs = twin(there(x))
    far = float(np.abs(host(to_torch(mine).float()) - host(theirs.float())).max())
    gradients = {dtype_name(parameter.grad) for parameter in net.parameters()}
    report = f"result {dtype_name(mine)}, natively {native}, gradients {gradients}; farthest from torch.autocast {far:.2g}"
    assert native == dtype_name(mine) or native.startswith("none"), report
    return f"{report}; native {dict(run.native)}"


for _dtype in ("float16", "bfloat16"):
    for _level in ("O1", "O2"):
        step(f"autocast {_level} {_dtype}")(functools.partial(autocast, _level, _dtype))


@step("order of work")
def order_of_work():
    wrong, size = 0, 1 << 20
    with padiff_shim.reference("torch"):
        for number in range(100):
            mine = paddle.to_tensor(np.full(size, number, "float32"))
            again = (mine + 1.0) * 2.0  # freed by one allocator, reused by the other, on one stream
            copy = again.clone()
            del mine, again
            wrong += not np.array_equal(copy.numpy(), np.full(size, 2.0 * number + 2.0, "float32"))
    assert not wrong, f"{wrong} of 100"
    return "100 rounds of 4 MiB, each value right"


@step("nothing waits")
def nothing_waits():
    if not on_gpu():
        return "no device"
    side = paddle.to_tensor(values(4096, 4096))
    with padiff_shim.reference("torch"):
        paddle.matmul(side, side)
        wait()
        begin = time.perf_counter()
        for _ in range(40):
            paddle.matmul(side, side)
        queued = time.perf_counter() - begin
        wait()
        done = time.perf_counter() - begin
    assert queued < 0.5 * done, (queued, done)
    return f"40 products queued in {queued * 1e3:.1f} ms, done after {done * 1e3:.1f} ms"


@step("memory")
def memory():
    if not on_gpu():
        return "no device"
    net, _ = models(perceptron)
    optimizer = paddle.optimizer.AdamW(RATE, parameters=net.parameters())

    def free_after(steps):
        for _ in range(steps):
            (net(paddle.to_tensor(values(4096, 7))) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
        wait()
        return torch.cuda.mem_get_info()[0]

    with padiff_shim.reference("torch"):
        free_after(20)
        before = free_after(20)
        after = free_after(200)
    assert before - after < 16 << 20, before - after
    return f"200 steps take {(before - after) >> 20} MiB more"


def cost(name, size):
    """Of a call of an op, beside Torch's."""
    mine = paddle.to_tensor(values(size, size))
    theirs = to_torch(mine).clone()
    module, other = (paddle, torch) if name == "add" else (paddle.nn.functional, torch.nn.functional)
    ours, plain = getattr(module, name), getattr(other, name)
    with padiff_shim.reference("torch"), paddle.no_grad():
        shim = seconds(lambda: ours(mine, mine), 200, warm=20) * 1e6
    alone = seconds(lambda: plain(theirs, theirs), 200, warm=20) * 1e6
    return f"{name} of {size} x {size}: {shim:.1f} us, Torch alone {alone:.1f} us, {shim / alone:.2f} x"


@step("cost of a call")
def cost_of_a_call():
    return "; ".join(cost(name, size) for size in (8, 1024) for name in ("add", "linear"))


@step("cost of a training step")
def cost_of_a_training_step():
    net, twin = models(wide)
    mine, theirs = paddle.optimizer.AdamW(0.001, parameters=net.parameters()), torch.optim.AdamW(twin.parameters(), lr=0.001)
    x, y = paddle.to_tensor(values(256, 512)), there(values(256, 512))

    def ours():
        (net(x) ** 2).mean().backward()
        mine.step()
        mine.clear_grad()

    def other():
        (twin(y) ** 2).mean().backward()
        theirs.step()
        theirs.zero_grad()

    plain = seconds(other, 20, warm=5) * 1e3
    with padiff_shim.reference("torch") as run:
        shim = seconds(ours, 20, warm=5) * 1e3
    return f"8 blocks of 512: {shim:.2f} ms, Torch alone {plain:.2f} ms, {shim / plain:.2f} x; native {dict(run.native)}"


@step("a second thread")
def second_thread():
    results = []

    def work():
        with padiff_shim.reference("torch"):
            results.append(host(paddle.nn.functional.gelu(paddle.to_tensor(values(64, 64)))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert np.array_equal(results[0], host(torch.nn.functional.gelu(there(values(64, 64)))))
    return "the same bits"


@step("compare: matmul")
def compare_matmul():
    x, y = paddle.to_tensor(values(300, 257), stop_gradient=False), paddle.to_tensor(values(257, 41, seed=1))
    with padiff_shim.compare("torch") as run:
        paddle.matmul(x, y)
    assert list(run.calls), f"not compared: {dict(run.native)}"
    return "; ".join(f"{call.op} {call.verdict} {call.stats}" for call in run.calls)


class Product(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([7, 5])

    def forward(self, x):
        return paddle.matmul(x, self.weight)


class TorchProduct(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(5, 7))

    def forward(self, x):
        return torch.matmul(x, self.weight.t())


@step("prove: a product")
def prove_product():
    net, twin = models(lambda nn: Product() if nn is paddle.nn else TorchProduct())
    proof = padiff_shim.prove(net, twin, values(6, 7))
    assert proof.verdict.startswith("CODE_CORRECT"), proof
    return proof.verdict


@step("several roots")
def several_roots():
    """Several sentinels in one backward: what Paddle's engine adds up for them is nobody's gradient."""
    array, seeds = values(4, 5), [values(4, 5, seed=number) for number in (1, 2, 3)]
    x, w = paddle.to_tensor(array, stop_gradient=False), there(array).requires_grad_()
    with padiff_shim.reference("torch"):
        y, z = paddle.tanh(x), paddle.exp(x)
        paddle.autograd.backward([y, z, paddle.tanh(y)], [paddle.to_tensor(seed) for seed in seeds])
    a, b = torch.tanh(w), torch.exp(w)
    torch.autograd.backward([a, b, torch.tanh(a)], [there(seed) for seed in seeds])
    assert same(x.grad, w.grad)
    return "three roots, one gradient"


step("the table")(functools.partial(table, "reference"))
step("the table under autocast")(functools.partial(table, "autocast"))
step("the table compared")(functools.partial(table, "compare"))


def run(name):
    """Run a step and print how it went; whether it passed."""
    begin = time.perf_counter()
    try:
        text, word = STEPS[name](), "ok"
    except Exception as error:
        traceback.print_exc()
        text, word = short(error, 400), "FAILED"
    print(f"{word:6} {name}: {text} [{time.perf_counter() - begin:.1f} s]", flush=True)
    return word == "ok"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="gpu", help="as paddle.set_device takes it")
    parser.add_argument("--skip", default="", help="comma-separated names of steps that are left out")
    options = parser.parse_args()
    paddle.set_device(options.device)
    fill_on_host()
    failed = [name for name in STEPS if name not in options.skip.split(",") and not run(name)]
    print("failed: " + ", ".join(failed) if failed else "every step passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
