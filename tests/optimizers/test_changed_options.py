"""Where a program may write the numbers of the next step: each step reads them."""

import paddle
import pytest
from helpers import same
from test_kept_tensors import alike, built, train
from trainings import RATE, batch, nets

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]

OPTIONS = {"Adam": ("beta1", 0.5), "AdamW": ("weight_decay", 0.4), "Momentum": ("momentum", 0.3), "RMSProp": ("rho", 0.3)}
WHOSE = ("a group that has it", "a group that has not", "all groups")


@pytest.mark.rows(4)
@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("kind", OPTIONS)
def test_an_option_of_groups_changes_between_two_steps(kind, whose):
    """As schedules of weight decay and of momenta have it."""
    name, value = OPTIONS[kind]

    def build(_=None):
        with paddle.utils.unique_name.guard("a"):
            net, _ = nets()
            groups = [{"params": net[0].parameters()}, {"params": net[2].parameters()}]
            groups[whose == WHOSE[1]][name] = 0.02
            return net, getattr(paddle.optimizer, kind)(RATE, parameters=groups)

    def change(step, net, optimizer):
        if step >= 3:
            (optimizer._default_dict if whose == WHOSE[2] else optimizer._param_groups[0])[name] = value

    alike(change, build=build)
    if (kind, whose) != ("AdamW", WHOSE[2]):  # whose groups take over their defaults at the beginning
        _, tensors, _ = train(*build())
        _, others, _ = train(*build(), change=change)
        assert not all(same(result, other) for result, other in zip(tensors, others, strict=True))


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Lamb"])
def test_a_number_that_a_tensor_holds_is_read_at_each_step(kind):
    first, second = 2.0**-20, 0.5  # which float32 has

    def trained(held):
        with paddle.utils.unique_name.guard("a"):
            net, _ = nets()
            option = paddle.full([1], first) if held else first
            optimizer = getattr(paddle.optimizer, kind)(RATE, parameters=net.parameters(), epsilon=option)

        def change(step, *_):
            if step == 3:
                option.set_value(paddle.full([1], second)) if held else setattr(optimizer, "_epsilon", second)

        return train(net, optimizer, change=change)[1]

    assert all(same(result, other) for result, other in zip(trained(True), trained(False), strict=True))


def test_one_clipper_of_two_optimizers():
    """What it knows of the one's gradients is not taken for the other's."""

    def trained(shared):
        clip = paddle.nn.ClipGradByGlobalNorm(0.01)
        results = [built("adamw", grad_clip=clip if shared else paddle.nn.ClipGradByGlobalNorm(0.01)) for _ in range(2)]
        with padiff_shim.reference("torch", optimizer="torch"):
            for step in range(4):
                for scale, (net, _) in enumerate(results, 1):
                    (net(paddle.to_tensor(batch(step))) * scale).square().mean().backward()
                for _, optimizer in results:
                    optimizer.step()
                    optimizer.clear_grad()
        return [param.numpy() for net, _ in results for param in net.parameters()]

    assert all(same(result, two) for result, two in zip(trained(shared=True), trained(shared=False), strict=True))
