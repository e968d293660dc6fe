"""Kinds of lines that call what the tables list, train, and follow gradients: one function each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .slots import Slots
from .tables import TEMPLATES
from .template import CHOICE, SLOT
from .words import Nothing

if TYPE_CHECKING:
    from .generate import Program

AROUND = (
    "with paddle.no_grad(): ",
    # Guards that are off: others act on a CPU in reference mode, and natively not, so that there is nothing to compare with.
    "with paddle.amp.auto_cast(enable=False, level='O1', dtype='bfloat16'): ",
    "with paddle.amp.auto_cast(enable=False, level='O2', dtype='bfloat16'): ",
    "with paddle.amp.auto_cast(level='O0', dtype='float16'): ",
    "with paddle.amp.auto_cast(enable=False): ",
    "with paddle.enable_grad(): ",
    "with paddle.set_grad_enabled(False): ",
)
OPTIMIZERS = (
    "SGD(0.1",
    "Momentum(0.1, 0.9",
    "Momentum(0.1, 0.9, use_nesterov=True",
    "Adam(0.05",
    "Adam(0.05, amsgrad=True",
    "AdamW(0.05, weight_decay=0.1",
    "Adamax(0.05",
    "Adagrad(0.1",
    "Adadelta(0.5",
    "RMSProp(0.05, rho=0.9",
    "RMSProp(0.05, centered=True, momentum=0.5",
    "Lamb(0.05",
    "NAdam(0.05",
    "RAdam(0.05",
    "ASGD(0.1",
    "Rprop(0.05",
    "SGD(paddle.optimizer.lr.StepDecay(0.1, 1",
)
CLIPS = ("paddle.nn.ClipGradByNorm(0.5)", "paddle.nn.ClipGradByGlobalNorm(0.5)", "paddle.nn.ClipGradByValue(0.25)")
DECAYS = ("0.1", "paddle.regularizer.L2Decay(0.1)", "paddle.regularizer.L1Decay(0.05)")


def templated(g: Program) -> None:
    """A call of a table."""
    template = g.pick(TEMPLATES)
    slots = Slots(g)
    call = filled(g, slots, template.call)
    if template.constructor:
        layers = g.new("p")
        if not g.add(f"{layers} = {filled(g, slots, template.constructor, template.call)}"):
            raise Nothing
        call = layers + call
    around = g.pick(AROUND) if g.chance(8) else ""
    if template.alone:
        g.add(around + call)
    else:
        g.call(call, around)


def filled(g: Program, slots: Slots, text: str, rest: str = "") -> str:
    """A text with its choices made and its slots filled. ``rest``: where else the slots' letters stand."""
    text = CHOICE.sub(lambda match: g.pick(match[1].split(";")), text)
    return SLOT.sub(lambda match: slots.fill(match[1], text + rest), text)


def layer_again(g: Program) -> None:
    """A layer that was called before, or switched to evaluation."""
    calls = [line.partition(" = ")[2] for line in g.lines if " = p" in line and "(" in line]
    if not calls:
        raise Nothing
    call = g.pick(calls)
    if g.chance(4):
        g.add(f"{call.partition('(')[0]}.{g.pick(('eval()', 'train()', 'clear_gradients()'))}")
    else:
        g.call(call)


def optimised(g: Program) -> None:
    """An optimizer over leaves and a layer's parameters, and a step or two."""
    leaves = g.tensors(lambda t: t.is_floating_point() and t.is_leaf and not t.stop_gradient)
    layers = g.layers(lambda layer: hasattr(layer, "parameters"))
    parameters = [f"[{', '.join(leaves[:3])}]"] if leaves else []
    if layers and (not leaves or g.choose(2)):
        parameters.append(f"[*{g.pick(layers)}.parameters()]")
    if not parameters:
        raise Nothing
    kind = g.pick(OPTIMIZERS)
    closing = ")" * kind.count("(")  # of the rate's schedule
    options = f"{closing[1:]}, parameters={' + '.join(parameters)}"
    options += f", grad_clip={g.pick(CLIPS)}" if g.chance(4) else ""
    options += f", weight_decay={g.pick(DECAYS)}" if g.chance(4) and "weight_decay" not in kind and "Lamb" not in kind else ""
    optimizer = g.new("o")
    if g.add(f"{optimizer} = paddle.optimizer.{kind}{options})"):
        g.add(f"{optimizer}.step()")
        g.add(f"{optimizer}.clear_grad()")


def stepped(g: Program) -> str:
    """Another step of an optimizer."""
    optimizers = [name for name in g.scope if name[0] == "o" and name[1:].isdigit()]
    if not optimizers:
        raise Nothing
    loss = g.floating()
    action = g.pick(("step()", "step()", "clear_grad()", "clear_grad(set_to_zero=False)", f"minimize({loss}.sum())"))
    return f"{g.pick(optimizers)}.{action}"


def scaled(g: Program) -> None:
    """A loss that a scaler of gradients takes times 1: natively it is disabled on a CPU, and in reference mode not."""
    loss = g.floating(lambda t: not t.stop_gradient)
    scaler = g.new("n")
    if g.add(f"{scaler} = paddle.amp.GradScaler(init_loss_scaling=1.0)"):
        g.add(f"{scaler}.scale({loss}.sum().astype('float32')).backward()")


def applied(g: Program) -> str:
    """A PyLayer, or a block that runs again in the backward."""
    x = g.floating(lambda t: t.ndim >= 1)
    return f"{g.new()} = {g.pick(('Twice.apply({})', 'Cube.apply({})', 'recompute(block, {}, use_reentrant=True)')).format(x)}"


def transformed_gradient(g: Program) -> str:
    """A hook that computes."""
    x = g.floating(lambda t: not t.stop_gradient)
    g.hooks += 1
    body = g.pick(("grad * 2", "paddle.tanh(grad)", "grad.clip(-0.1, 0.1)", "grad + 0.5", "None"))
    return f"h{g.hooks} = {x}.register_hook(lambda grad: {body})"
