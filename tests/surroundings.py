"""What stands around a model in real programs, as small programs that know nothing of the shim. Each gives arrays.

``SURROUNDINGS`` maps a name to a program; those that Paddle itself refuses here are left out.
"""

import json
import os
import tempfile

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.quantization import PTQ, QAT, QuantConfig, observers, quanters


def batch(seed=0, shape=(4, 8)):
    return paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def network():
    paddle.seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4))


def parameters(layer):
    return [parameter.numpy() for parameter in layer.parameters()]


def trained(layer, forward=None, steps=2, rule=paddle.optimizer.AdamW):
    """Some steps of a training; ``forward`` is what is called instead of the layer."""
    optimizer = rule(0.01, parameters=layer.parameters())
    for step in range(steps):
        ((forward or layer)(batch(step)) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return parameters(layer)


class Branches(nn.Layer):
    """Control flow that depends on values: a graph alone cannot hold it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        hidden = self.first(x)
        if hidden.mean() > 0:  # noqa: SIM108  # what the tracers have to see
            hidden = F.gelu(hidden)
        else:
            hidden = paddle.tanh(hidden)
        return self.last(hidden)


def to_static_ast():
    paddle.seed(0)
    layer = Branches()
    return trained(layer, paddle.jit.to_static(layer, full_graph=True))


def to_static_sot():
    paddle.seed(0)
    layer = Branches()
    return trained(layer, paddle.jit.to_static(layer, full_graph=False))


def to_static_function():
    layer = network()
    return trained(layer, paddle.jit.to_static(lambda x: F.gelu(layer(x)), full_graph=False))


def jit_save_and_load():
    layer = network()
    layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        paddle.jit.save(layer, f"{folder}/model", input_spec=[paddle.static.InputSpec([None, 8], "float32")])
        loaded = paddle.jit.load(f"{folder}/model")
        return [layer(batch()).numpy(), loaded(batch()).numpy()]


def static_program():
    paddle.enable_static()
    try:
        program, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(program, startup):
            x = paddle.static.data("x", [None, 8], "float32")
            loss = F.gelu(nn.Linear(8, 4, weight_attr=nn.initializer.Constant(0.1))(x)).mean()
            paddle.optimizer.SGD(0.1).minimize(loss)
        executor = paddle.static.Executor()
        executor.run(startup)
        feed = {"x": np.ones((2, 8), "float32")}
        return [executor.run(program, feed=feed, fetch_list=[loss])[0] for _ in range(2)]
    finally:
        paddle.disable_static()


def predictor():
    with tempfile.TemporaryDirectory() as folder:
        layer = network()
        layer.eval()
        paddle.jit.save(layer, f"{folder}/model", [paddle.static.InputSpec([None, 8], "float32")])
        ended = next(end for end in ("json", "pdmodel") if os.path.exists(f"{folder}/model.{end}"))
        made = paddle.inference.create_predictor(paddle.inference.Config(f"{folder}/model.{ended}", f"{folder}/model.pdiparams"))
        return [made.run([batch()])[0].numpy()]


class Samples(paddle.io.Dataset):
    def __getitem__(self, index):
        return np.random.default_rng(index).standard_normal(8).astype("float32"), np.int64(index % 4)

    def __len__(self):
        return 16


class Losses(paddle.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, step, logs=None):
        self.seen.append(np.asarray(logs["loss"]))


def model_fit(workers=0):
    model, losses = paddle.Model(network()), Losses()
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    callbacks = [losses, paddle.callbacks.LRScheduler(), paddle.callbacks.EarlyStopping("loss", save_best_model=False, verbose=0)]
    options = {"batch_size": 4, "verbose": 0, "num_workers": workers}
    model.fit(Samples(), Samples(), epochs=2, shuffle=False, callbacks=callbacks, **options)
    model.evaluate(Samples(), **options)
    return [*losses.seen, model.predict(Samples(), stack_outputs=True, **options)[0]]


def model_fit_with_workers():
    return model_fit(workers=2)


class Cube(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 3 * x * x


def py_layer():
    layer, x = network(), batch()
    x.stop_gradient = False
    Cube.apply(layer(x)).sum().backward()
    return [x.grad.numpy(), layer[0].weight.grad.numpy()]


def model_average():
    layer = network()
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    average = paddle.incubate.ModelAverage(0.15, parameters=layer.parameters(), min_average_window=2, max_average_window=10)
    for step in range(3):
        (layer(batch(step)) ** 2).mean().backward()
        optimizer.step()
        average.step()
        optimizer.clear_grad()
    with average.apply(need_restore=True):
        averaged = [parameter.copy() for parameter in parameters(layer)]
    return [*averaged, *parameters(layer)]


def moving_average():
    """An exponential moving average of the weights by hand, as training scripts keep one."""
    layer = network()
    before = {name: parameter.clone().detach() for name, parameter in layer.named_parameters()}
    for _ in range(2):
        trained(layer, steps=1)
        with paddle.no_grad():
            for name, parameter in layer.named_parameters():
                before[name].set_value(before[name] * 0.9 + parameter * 0.1)
    return [value.numpy() for value in before.values()]


def look_ahead():
    layer = network()
    optimizer = paddle.incubate.LookAhead(paddle.optimizer.SGD(0.1, parameters=layer.parameters()), alpha=0.5, k=2)
    for step in range(4):
        (layer(batch(step)) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return parameters(layer)


def incubate_functions():
    x, weight = batch(), batch(1, (8, 4))
    x.stop_gradient = False
    segments = paddle.incubate.segment_mean(x, paddle.to_tensor([0, 0, 1, 1]))
    result = paddle.incubate.nn.functional.fused_linear(segments, weight) if paddle.is_compiled_with_cuda() else segments @ weight
    result.sum().backward()
    jacobian = paddle.incubate.autograd.Jacobian(lambda t: paddle.tanh(t) * t, batch(0, (3,)))[:]
    return [result.numpy(), x.grad.numpy(), jacobian.numpy()]


def summary():
    return [np.array(paddle.summary(network(), (4, 8))["total_params"])]


def flops():
    """Of convolutions: Paddle 3.3.1 fails on others where NumPy makes no number of an array of one element."""
    return [np.array(paddle.flops(nn.Sequential(nn.Conv2D(2, 3, 3), nn.ReLU()), [1, 2, 8, 8]))]


def profiler():
    layer = network()
    with tempfile.TemporaryDirectory() as folder:
        exported = paddle.profiler.export_chrome_tracing(folder)
        target = [paddle.profiler.ProfilerTarget.CPU]
        with paddle.profiler.Profiler(targets=target, on_trace_ready=exported, scheduler=(0, 2)) as running:
            for step in range(3):
                with paddle.profiler.RecordEvent("a step"):
                    (layer(batch(step)) ** 2).mean().backward()
                running.step()
        (name,) = os.listdir(folder)
        with open(f"{folder}/{name}") as file:
            assert json.load(file)["traceEvents"]
    return [parameter.grad.numpy() for parameter in layer.parameters()]


def quantisation_aware():
    quanter = quanters.FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    config = QuantConfig(activation=None, weight=None)
    config.add_type_config(nn.Linear, activation=quanter, weight=quanter)
    layer = QAT(config).quantize(network())
    layer.train()
    return trained(layer)


def quantised_after_training():
    observer = observers.AbsmaxObserver
    quantizer = PTQ(QuantConfig(activation=observer(), weight=observer()))
    layer = network()
    layer.eval()
    layer = quantizer.quantize(layer)
    layer(batch())
    return [quantizer.convert(layer)(batch(1)).numpy()]


def hooks_of_layers():
    layer = network()
    layer[0].register_forward_post_hook(lambda hooked, inputs, out: out * 2)
    layer[3].register_forward_pre_hook(lambda hooked, inputs: (inputs[0] + 1,))
    return trained(layer)


def reparameterized():
    layer = network()
    nn.utils.weight_norm(layer[0])
    nn.utils.spectral_norm(layer[3])
    return trained(layer)


def flattened_parameters():
    layer = network()
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 0.5, layer.parameters())
    (layer(batch()) ** 2).mean().backward()
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.1)
    return [norm.numpy(), *(parameter.grad.numpy() for parameter in layer.parameters())]


def scaled_mixed_precision():
    layer = network()
    optimizer = paddle.optimizer.AdamW(0.01, parameters=layer.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=128.0)
    for step in range(2):
        with paddle.amp.auto_cast(dtype="bfloat16", level="O1"):
            loss = (layer(batch(step)) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    return parameters(layer)


def saved_and_loaded():
    layer, again = network(), network()
    trained(layer)
    with tempfile.TemporaryDirectory() as folder:
        paddle.save(layer.state_dict(), f"{folder}/weights.pdparams")
        again.set_state_dict(paddle.load(f"{folder}/weights.pdparams"))
    return [again(batch()).numpy()]


_NAMES = """
    to_static_ast to_static_sot to_static_function jit_save_and_load static_program model_fit model_fit_with_workers py_layer
    model_average moving_average look_ahead incubate_functions summary flops profiler quantisation_aware quantised_after_training
    hooks_of_layers reparameterized flattened_parameters scaled_mixed_precision saved_and_loaded predictor
"""
SURROUNDINGS = {name: globals()[name] for name in _NAMES.split()}
