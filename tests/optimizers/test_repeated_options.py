"""Where a program may write the numbers of the next step: a step that is made again reads them."""

import paddle
import pytest
from helpers import same
from test_repeated import alike, train
from trainings import RATE, nets

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]

OPTIONS = {"Adam": ("beta1", 0.5), "AdamW": ("weight_decay", 0.4), "Momentum": ("momentum", 0.3), "RMSProp": ("rho", 0.3)}
WHOSE = ("a group that has it", "a group that has not", "all groups")


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

    assert alike(change, build=build) > 0
    if (kind, whose) != ("AdamW", WHOSE[2]):  # whose groups take over their defaults at the beginning
        _, tensors, _ = train(*build())
        _, others, _ = train(*build(), change=change)
        assert not all(same(one, other) for one, other in zip(tensors, others, strict=True))


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

    assert all(same(one, other) for one, other in zip(trained(True), trained(False), strict=True))
