"""Trainings as people write them, in both frameworks: a Llama, a ViT, a U-Net, one with a GradScaler, a classifier.

Each takes faults by name, of Paddle's side alone; ``whole=False`` records without ``model=``.
"""

import contextlib
import functools
import math

import numpy as np
import paddle
import paddle.nn.functional as PF
import torch
import torch.nn.functional as TF

import padiff_shim

VOCABULARY, LENGTH, BATCH, WIDTH, HEADS, HEAD = 17, 6, 4, 16, 4, 4
RNG = np.random.default_rng(7)
TOKENS = RNG.integers(0, VOCABULARY, (8, BATCH, LENGTH + 1))
IMAGES = RNG.standard_normal((8, BATCH, 3, 8, 8)).astype("float32")
CLASSES = RNG.integers(0, 5, (8, BATCH))


def angles(base=1e4):
    half = np.outer(np.arange(LENGTH), base ** (-np.arange(0, HEAD, 2) / HEAD)).astype("float32")
    return np.concatenate([half, half], -1)


def recorded(folder, model, framework, values, whole):
    options = {"values": values} if values == "fingerprint" else {}
    if not whole:
        return padiff_shim.record(folder, framework=framework, **options)
    options = options or {"gradients": True, "parameters": True, "states": True}
    return padiff_shim.record(folder, model, **options)


class PaddleNorm(paddle.nn.Layer):
    def __init__(self, epsilon=1e-6):
        super().__init__()
        self.weight = self.create_parameter([WIDTH], default_initializer=paddle.nn.initializer.Constant(1.0))
        self.epsilon = epsilon

    def forward(self, x):
        return x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class TorchNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class PaddleScores(paddle.nn.Layer):
    """A layer around attention that the original does not have."""

    def forward(self, attention, *operands):
        return attention(*operands)


class PaddleBlock(paddle.nn.Layer):
    def __init__(self, faults):
        super().__init__()
        self.faults = faults
        self.first, self.second = PaddleNorm(*([1e-2] if "epsilon" in faults else [])), PaddleNorm()
        self.q, self.k, self.v, self.out = (paddle.nn.Linear(WIDTH, WIDTH, bias_attr=False) for _ in range(4))
        self.gate, self.up = (paddle.nn.Linear(WIDTH, 32, bias_attr=False) for _ in range(2))
        self.down = paddle.nn.Linear(32, WIDTH, bias_attr=False)
        self.idle, self.around = paddle.nn.Dropout(0.0), PaddleScores() if "nested" in faults else None

    def turned(self, x):
        if "pairs" in self.faults:
            return paddle.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
        low, high = x.chunk(2, -1)
        return paddle.concat([-high, low], -1)

    def heads(self, x):
        if "heads" in self.faults:
            return x.reshape([-1, HEADS, LENGTH, HEAD]).transpose([0, 2, 1, 3])
        return x.reshape([-1, LENGTH, HEADS, HEAD])

    def attention(self, q, k, v):
        if "fused" in self.faults:
            diagonal = self.faults["fused"]  # of the last score that is seen
            if diagonal == "causal":
                return PF.scaled_dot_product_attention(q, k, v, is_causal=True)
            mask = None if diagonal is None else paddle.tril(paddle.ones([LENGTH, LENGTH], "bool"), diagonal)
            return PF.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        q, k, v = (x.transpose([0, 2, 1, 3]) for x in (q, k, v))
        if "before" in self.faults:  # no fault: the query is scaled, as paddlenlp does it
            scores = paddle.matmul(q / math.sqrt(HEAD), k, transpose_y=True)
        else:
            scores = paddle.matmul(q, k, transpose_y=True) / (HEAD if "score" in self.faults else math.sqrt(HEAD))
        scores = scores + paddle.triu(paddle.full([LENGTH, LENGTH], -1e9), 2 if "mask" in self.faults else 1)
        mixed = paddle.matmul(PF.softmax(scores, -2 if "axis" in self.faults else -1), v)
        return mixed if "merge" in self.faults else mixed.transpose([0, 2, 1, 3])

    def forward(self, x, cosine, sine):
        hidden = self.first(x)
        q, k, v = (self.heads(layer(hidden)) for layer in (self.q, self.k, self.v))
        q, k = (y * cosine[:, None] + self.turned(y) * sine[:, None] for y in (q, k))
        k, v = (v, k) if "exchanged" in self.faults else (k, v)
        mixed = self.around(self.attention, q, k, v) if self.around else self.attention(q, k, v)
        mixed = mixed.reshape([-1, LENGTH, WIDTH])
        x = x + self.idle(self.out(PF.dropout(mixed, 0.1) if "dropout" in self.faults else mixed))
        hidden = self.second(x.detach() if "detach" in self.faults else x)
        hidden = self.down(PF.silu(self.gate(hidden)) * self.up(hidden))
        return x + (hidden - x if "lost" in self.faults else hidden)


class TorchBlock(torch.nn.Module):
    def __init__(self, faults):
        super().__init__()
        self.fused = "fused" in faults
        self.first, self.second = TorchNorm(), TorchNorm()
        self.q, self.k, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (torch.nn.Linear(WIDTH, 32, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(32, WIDTH, bias=False)

    def turned(self, x):
        low, high = x.chunk(2, -1)
        return torch.cat([-high, low], -1)

    def attention(self, q, k, v):
        if self.fused:
            return TF.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(HEAD)
        return torch.matmul(torch.softmax(scores + torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1), -1), v)

    def forward(self, x, cosine, sine):
        hidden = self.first(x)
        q, k, v = (layer(hidden).view(-1, LENGTH, HEADS, HEAD).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = (y * cosine + self.turned(y) * sine for y in (q, k))
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(-1, LENGTH, WIDTH))
        hidden = self.second(x)
        return x + self.down(TF.silu(self.gate(hidden)) * self.up(hidden))


class PaddleLlama(paddle.nn.Layer):
    """With a head of its own, or the embedding's weight."""

    def __init__(self, blocks, tied, faults):
        super().__init__()
        self.faults = faults
        self.embed = paddle.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = paddle.nn.LayerList([PaddleBlock(faults) for _ in range(blocks)])
        self.norm = PaddleNorm()
        self.head = None if tied else paddle.nn.Linear(WIDTH, VOCABULARY, bias_attr=False)

    def forward(self, tokens):
        x, turns = self.embed(tokens), paddle.to_tensor(angles(1e3 if "base" in self.faults else 1e4))
        for block in self.blocks:
            x = block(x, paddle.cos(turns), paddle.sin(turns))
        if self.head is not None:
            return self.head(self.norm(x))
        weight = self.embed.weight
        return paddle.matmul(self.norm(x), weight.detach() if "untied" in self.faults else weight, transpose_y=True)


class TorchLlama(torch.nn.Module):
    def __init__(self, blocks, tied, faults):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList([TorchBlock(faults) for _ in range(blocks)])
        self.norm = TorchNorm()
        self.head = None if tied else torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x, turns = self.embed(tokens), torch.from_numpy(angles())
        for block in self.blocks:
            x = block(x, torch.cos(turns), torch.sin(turns))
        return TF.linear(self.norm(x), self.embed.weight) if self.head is None else self.head(self.norm(x))


def rate(step):
    """A warmup, then a cosine."""
    return (step + 1) / 3 if step < 3 else 0.5 * (1 + math.cos(math.pi * (step - 3) / 10))


def adamw(model, port, clips, faults):
    """What makes the optimizer, and its schedule."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    if not port:
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-2)
        return lambda: optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    decaying = {parameter.name for parameter in (matrices + vectors if "decay" in faults else matrices)}
    schedule = paddle.optimizer.lr.LambdaDecay(1e-2, lambda step: rate(step + ("early" in faults)))
    clip = paddle.nn.ClipGradByValue(0.1) if "clip" in faults else paddle.nn.ClipGradByGlobalNorm(0.5)
    groups = [{"params": matrices}, {"params": vectors}] if "grouped" in faults else model.parameters()
    if "lamb" in faults:
        return lambda: paddle.optimizer.Lamb(schedule, 0.1, parameters=groups, grad_clip=clip), schedule
    return lambda: paddle.optimizer.AdamW(
        schedule, parameters=groups, weight_decay=0.1, grad_clip=clip if clips else None,
        apply_decay_param_fun=lambda name: name in decaying,
    ), schedule  # fmt: skip


def llama(
    folder, framework, values="full", whole=True, parts=1, begin=0, count=3, blocks=1, tied=False, frozen=False, clips=True,
    inside=False, faults=(),
):  # fmt: skip
    """AdamW without decay of norms, a schedule, clipping, accumulation over ``parts``; recorded from the step ``begin`` on.

    ``inside``: of a layer that each side's library gives a name of its own.
    """
    torch.manual_seed(0)
    original, port = TorchLlama(blocks, tied, faults), framework == "paddle"
    model = PaddleLlama(blocks, tied, faults) if port else original
    if port:
        padiff_shim.transfer_weights(original, model)
    for parameter in model.parameters() if "half" in faults else ():
        parameter.set_value((parameter.numpy().view(np.uint32) & 0xFFFF0000).view(np.float32))
    for parameter in model.embed.parameters() if frozen and "thawed" not in faults else ():
        if port:
            parameter.stop_gradient = True
        else:
            parameter.requires_grad_(False)
    make, schedule = adamw(model, port, clips, faults)
    optimizer = make()
    tensor, entropy = (paddle.to_tensor, PF.cross_entropy) if port else (torch.from_numpy, TF.cross_entropy)
    with contextlib.ExitStack() as stack:
        for number in range(begin + count):
            if number == begin:
                if "moments" in faults:
                    optimizer = make()
                if "schedule" in faults:
                    schedule.step(0)
                name = "model" if not port else "0" if "numbered" in faults else "llama"
                around = (paddle.nn.LayerDict if port else torch.nn.ModuleDict)({name: model})
                stack.enter_context(recorded(folder, around if inside else model, framework, values, whole))
            entropy = functools.partial(PF.cross_entropy, reduction="sum") if "summed" in faults else entropy
            tokens = TOKENS[(number + ("later" in faults)) % len(TOKENS), : 3 if "batch" in faults else BATCH]
            for part in np.split(tokens, parts):
                logits = model(tensor(np.ascontiguousarray(part[:, :-1])))
                labels = tensor(np.ascontiguousarray(part[:, :-1] if "shift" in faults else part[:, 1:]).reshape(-1))
                loss = entropy(logits.reshape([-1, VOCABULARY]), labels)
                (loss if parts == 1 or "undivided" in faults else loss / parts).backward()
            if clips and not port:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            for _ in range(1 + ("twice" in faults)):
                optimizer.step()
            schedule.step()
            optimizer.clear_grad() if port else optimizer.zero_grad()
    return folder


class PaddleVit(paddle.nn.Layer):
    def __init__(self, faults):
        super().__init__()
        self.faults = faults
        self.patch = paddle.nn.Conv2D(3, WIDTH, 4, stride=4)
        self.token, self.places = self.create_parameter([1, 1, WIDTH]), self.create_parameter([1, 5, WIDTH])
        self.first, self.qkv = paddle.nn.LayerNorm(WIDTH, epsilon=1e-6), paddle.nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.head = paddle.nn.Linear(WIDTH, WIDTH), paddle.nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.token.expand([x.shape[0], -1, -1]), x], 1) + self.places
        qkv, count = self.qkv(self.first(x)), x.shape[0]
        if "interleaved" in self.faults:
            q, k, v = qkv.reshape([count, 5, HEADS, 3, HEAD]).transpose([3, 0, 2, 1, 4])
        else:
            q, k, v = qkv.reshape([count, 5, 3, HEADS, HEAD]).transpose([2, 0, 3, 1, 4])
        mixed = PF.softmax(q @ k.transpose([0, 1, 3, 2]) * HEAD**-0.5, -1) @ v
        x = x + self.out(mixed.transpose([0, 2, 1, 3]).reshape([count, 5, WIDTH]))
        return self.head(x.mean(1) if "pooled" in self.faults else x[:, 0])


class TorchVit(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = torch.nn.Conv2d(3, WIDTH, 4, stride=4)
        self.token = torch.nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = torch.nn.Parameter(torch.randn(1, 5, WIDTH))
        self.first, self.qkv = torch.nn.LayerNorm(WIDTH, eps=1e-6), torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.head = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        q, k, v = self.qkv(self.first(x)).reshape(-1, 5, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-2, -1) * HEAD**-0.5, -1) @ v
        return self.head((x + self.out(mixed.transpose(1, 2).reshape(-1, 5, WIDTH)))[:, 0])


def composed(logits, labels, label_smoothing, times=1):
    logs = PF.log_softmax(logits, -1)
    chosen = paddle.take_along_axis(logs, labels.reshape([-1, 1]), 1).reshape([-1])
    return -((1 - label_smoothing) * chosen + times * label_smoothing * logs.mean(-1)).mean()


def vit(folder, framework, values="full", whole=True, cuts=(BATCH,), equal=False, noted=False, decay=0.9, smooth=0.0, faults=()):
    """Momentum without decay of biases, micro-batches of ``cuts`` samples, and an average of weights, which is ``noted`` or not."""
    torch.manual_seed(1)
    original, port = TorchVit(), framework == "paddle"
    model = PaddleVit(faults) if port else original
    if port:
        padiff_shim.transfer_weights(original, model)
    named = list(model.named_parameters())
    biases = [parameter for name, parameter in named if "bias" in name and "decay" not in faults]
    weights = [parameter for name, parameter in named if "bias" not in name or "decay" in faults]
    if port:
        groups = [{"params": weights, "weight_decay": paddle.regularizer.L2Decay(1e-2)}]
        groups += [{"params": biases, "weight_decay": paddle.regularizer.L2Decay(0.0)}] if biases else []
        optimizer = paddle.optimizer.Momentum(0.05, 0.9, parameters=groups)
    else:
        groups = [{"params": weights, "weight_decay": 1e-2}, {"params": biases, "weight_decay": 0.0}]
        optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    averages = {name: parameter.detach().clone() for name, parameter in named}
    tensor, entropy = (paddle.to_tensor, PF.cross_entropy) if port else (torch.from_numpy, TF.cross_entropy)
    with recorded(folder, model, framework, values, whole) as recording:
        for number in (0, 2, 1) if "shuffled" in faults else range(3):
            images, classes = IMAGES[number], CLASSES[number]
            if equal:
                images, classes = np.repeat(images[:1], BATCH, 0), np.repeat(classes[:1], BATCH, 0)
            if "order" in faults:
                images, classes = images[::-1].copy(), classes[::-1].copy()
            ends = np.cumsum(cuts)[:-1]
            for x, y in zip(np.split(images, ends), np.split(classes, ends)):
                of_batch = (
                    composed if "composed" in faults else functools.partial(composed, times=2) if "weight" in faults else entropy
                )
                loss = of_batch(model(tensor(x)), tensor(y), label_smoothing=smooth)
                (loss if "undivided" in faults else loss * (len(x) / BATCH)).backward()
            optimizer.step()
            optimizer.clear_grad() if port else optimizer.zero_grad()
            with paddle.no_grad(), torch.no_grad():
                averages = {name: averages[name] * decay + parameter * (1 - decay) for name, parameter in named}
            for name, average in averages.items() if noted else ():
                recording.note(f"average {name}", average)
    return folder


class PaddleUnet(paddle.nn.Layer):
    def __init__(self, faults):
        super().__init__()
        self.turned = "turned" in faults
        self.enter, self.groups = paddle.nn.Conv2D(3, 8, 3, padding=1), paddle.nn.GroupNorm(2 if "groups" in faults else 4, 8)
        self.down = paddle.nn.Conv2D(8, 16, 3, stride=2, padding=1, bias_attr=False)
        self.norm = paddle.nn.BatchNorm2D(16, momentum=0.1 if "momentum" in faults else 0.9)
        self.up = paddle.nn.Upsample(scale_factor=2, mode="bilinear" if "bilinear" in faults else "nearest")
        self.leave = paddle.nn.Conv2D(24, 3, 3, padding=1)

    def forward(self, x):
        high = PF.silu(self.groups(self.enter(x)))
        low = self.up(PF.silu(self.norm(self.down(high))))
        return self.leave(paddle.concat([high, low] if self.turned else [low, high], 1))


class TorchUnet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.groups = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GroupNorm(4, 8)
        self.down, self.norm = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm2d(16)
        self.up, self.leave = torch.nn.Upsample(scale_factor=2, mode="nearest"), torch.nn.Conv2d(24, 3, 3, padding=1)

    def forward(self, x):
        high = TF.silu(self.groups(self.enter(x)))
        low = self.up(TF.silu(self.norm(self.down(high))))
        return self.leave(torch.cat([low, high], 1))


def unet(folder, framework, values="full", faults=()):
    """A generator and a discriminator with an optimizer each, of which one has a schedule and the other clips by value."""
    torch.manual_seed(2)
    nn, port = torch.nn, framework == "paddle"
    judge = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))
    models = torch.nn.ModuleDict({"generator": TorchUnet(), "judge": judge})
    if port:
        nn = paddle.nn
        judge = nn.Sequential(nn.Conv2D(3, 4, 3, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))
        ports = nn.LayerDict({"generator": PaddleUnet(faults), "judge": judge})
        for name in ("generator", "judge"):
            padiff_shim.transfer_weights(models[name], ports[name])
        models = ports
    generator, judge = models["generator"], models["judge"]
    if port:
        schedule = paddle.optimizer.lr.StepDecay(1e-3 if "rate" in faults else 2e-3, step_size=2, gamma=0.5)
        clip = paddle.nn.ClipGradByValue(0.1 if "clip" in faults else 0.01)
        makes = paddle.optimizer.Adam(1e-3, beta1=0.5, parameters=generator.parameters(), grad_clip=clip)
        judges = paddle.optimizer.Adam(schedule, beta1=0.5, parameters=judge.parameters())
    else:
        makes = torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.999))
        judges = torch.optim.Adam(judge.parameters(), 2e-3, betas=(0.5, 0.999))
        schedule = torch.optim.lr_scheduler.StepLR(judges, 2, 0.5)
    functions, tensor = (PF, paddle.to_tensor) if port else (TF, torch.from_numpy)
    with recorded(folder, models, framework, values, whole=True):
        for images in IMAGES[:3]:
            x = tensor(images)
            made = generator(x)
            (functions.softplus(-judge(x)).mean() + functions.softplus(judge(made.detach())).mean()).backward()
            judges.step()
            judges.clear_grad() if port else judges.zero_grad()
            (functions.softplus(-judge(made)).mean() + functions.mse_loss(made, x)).backward()
            if not port:
                torch.nn.utils.clip_grad_value_(generator.parameters(), 0.01)
            makes.step()
            for optimizer in (makes, judges)[: 1 if "kept" in faults else 2]:
                optimizer.clear_grad() if port else optimizer.zero_grad()
            schedule.step()
    return folder


def scaled(folder, framework, values="full", scale=1024.0, bad=None):
    """float16 with a GradScaler; the data of the step ``bad`` are infinite, so that it is skipped."""
    torch.manual_seed(0)
    drawn, port = np.random.default_rng(0), framework == "paddle"
    batches, labels = drawn.standard_normal((5, 8, 12)).astype("float32"), drawn.integers(0, 4, (5, 8))
    if bad is not None:
        batches[bad] = np.inf
    nn = torch.nn
    model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 4))
    with padiff_shim.reference("torch") if port else contextlib.nullcontext():
        if port:
            original, nn = model, paddle.nn
            model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 4))
            padiff_shim.transfer_weights(original, model)
            optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())
            scaler = paddle.amp.GradScaler(init_loss_scaling=scale, decr_every_n_nan_or_inf=1)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
            scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        tensor, entropy = (paddle.to_tensor, PF.cross_entropy) if port else (torch.from_numpy, TF.cross_entropy)
        with recorded(folder, model, framework, values, whole=True):
            for x, y in zip(batches, labels):
                with paddle.amp.auto_cast(dtype="float16") if port else torch.autocast("cpu", torch.float16):
                    loss = entropy(model(tensor(x)), tensor(y))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.clear_grad() if port else optimizer.zero_grad()
    return folder


class PaddleClassifier(paddle.nn.Layer):
    def __init__(self, faults):
        super().__init__()
        self.faults, momentum = faults, 0.1 if "momentum" in faults else 0.9
        self.enter, self.leave = paddle.nn.Conv2D(3, 6, 3, padding=1), paddle.nn.Linear(96, 5)
        self.norm = paddle.nn.BatchNorm2D(6, momentum=momentum)

    def forward(self, x):
        pooled = PF.avg_pool2d if "pool" in self.faults else PF.max_pool2d
        x = pooled(paddle.tanh(self.norm(self.enter(x))), 2)
        return self.leave(x.flatten(1))


class TorchClassifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.Linear(96, 5)
        self.norm = torch.nn.BatchNorm2d(6)

    def forward(self, x):
        return self.leave(TF.max_pool2d(torch.tanh(self.norm(self.enter(x))), 2).flatten(1))


def classifier(folder, framework, values="full", clips=False, faults=(), **more):
    """Gradients alone are recorded; Torch clears them before a backward, Paddle behind a step, and notes stand behind that.

    An average of the weights lies outside of the model.
    """
    torch.manual_seed(3)
    original, port = TorchClassifier(), framework == "paddle"
    model = PaddleClassifier(faults) if port else original
    if port:
        padiff_shim.transfer_weights(original, model)
        clip = paddle.nn.ClipGradByNorm(0.1) if clips == "each" else paddle.nn.ClipGradByGlobalNorm(0.1) if clips else None
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=clip)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if "eval" in faults and port:
        model.norm.eval()
    averages = [parameter.detach().clone() for parameter in model.parameters()]
    tensor, entropy = (paddle.to_tensor, PF.cross_entropy) if port else (torch.from_numpy, TF.cross_entropy)
    decay = 0.99 if "average" in faults else 0.9
    with padiff_shim.record(
        folder, model, **({"gradients": True} if values == "full" else {"values": values}), **more
    ) as recording:
        for images, classes in zip(IMAGES[:3], CLASSES):
            loss = entropy(model(tensor(images)), tensor(classes))
            if not port:
                optimizer.zero_grad()
            loss.backward()
            for group in () if port or not clips else model.parameters() if clips == "each" else [model.parameters()]:
                torch.nn.utils.clip_grad_norm_(group, 0.1)
            optimizer.step()
            if port and "kept" not in faults:
                optimizer.clear_grad()
            with paddle.no_grad(), torch.no_grad():
                for average, parameter in zip(averages, model.parameters()):
                    if port:
                        average.set_value(average * decay + parameter * (1 - decay))
                    else:
                        average.mul_(0.9).add_(parameter, alpha=0.1)
            recording.note("average", np.ascontiguousarray(averages[2].numpy().T) if port else averages[2])
            recording.note("loss", float(loss))
    return folder


def averaged(folder, framework, values="full", rates=(0.9, 0.99), faults=(), accuracy=0.5, rms=False):
    """Two moving averages of the weights behind each update, a branch whose gradient may end, and a note behind the last step."""
    torch.manual_seed(4)
    port = framework == "paddle"
    model = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in ("enter", "branch", "leave")})
    if port:
        layers = paddle.nn.LayerDict({name: paddle.nn.Linear(4, 4) for name in ("enter", "branch", "leave")})
        for name, layer in layers.items():
            padiff_shim.transfer_weights(model[name], layer)
        model, optimizer = layers, paddle.optimizer.SGD(0.1, parameters=layers.parameters())
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if rms:
        make = paddle.optimizer.RMSProp if port else torch.optim.RMSprop
        optimizer = make(1e-2, rho=0.99, epsilon=1e-8, parameters=model.parameters()) if port else make(model.parameters(), 1e-2)
    module, tensor = (paddle, paddle.to_tensor) if port else (torch, torch.from_numpy)
    weights = list(model.parameters())[:: -1 if "backwards" in faults else 1]
    averages = [[parameter.detach().clone() for parameter in weights] for _ in rates]
    with recorded(folder, model, framework, values, whole=True) as recording:
        for images in IMAGES[:3]:
            hidden = module.tanh(model["enter"](tensor(np.ascontiguousarray(images[:, 0, :4, :4]))))
            with paddle.set_grad_enabled("no_grad" not in faults) if port else contextlib.nullcontext():
                branch = module.tanh(model["branch"](hidden.detach() if "detach" in faults else hidden))
            (model["leave"](hidden + branch) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad() if port else optimizer.zero_grad()
            recording.note("accuracy", np.float32(accuracy))
            with paddle.no_grad(), torch.no_grad():
                for known, rate in zip(averages, rates):
                    known[:] = [mean * rate + parameter * (1 - rate) for mean, parameter in zip(known, weights)]
        recording.note("accuracy", np.float32(accuracy))
    return folder
