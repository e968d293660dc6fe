"""Nesting, re-entry, generators, coroutines, decorators: modes behave as a reader would expect."""

import asyncio

import paddle
import pytest

import padiff_shim
from padiff_shim.dispatch import frames

pytestmark = pytest.mark.usefixtures("undone")


def multiply(times=1):
    x = paddle.ones([2, 2])
    for _ in range(times):
        x = x @ x
    return x


# ------------------------------------------------------------------------------------------------ nesting


@pytest.mark.compat
def test_the_innermost_mode_counts_and_its_filters_win():
    with padiff_shim.reference("torch") as outer:
        multiply()
        with padiff_shim.reference("torch", exclude="matmul") as inner:
            multiply()
            with padiff_shim.reference("torch", ops="matmul") as innermost:
                multiply()
                paddle.exp(paddle.ones([1]))
        multiply()
    assert outer.substituted == {"matmul": 2}
    assert inner.native == {"matmul": {"filtered out by ops= or exclude=": 1}}
    assert innermost.substituted == {"matmul": 1}
    assert "exp" in innermost.native
    multiply()
    assert outer.substituted == {"matmul": 2}


@pytest.mark.compat
def test_one_mode_opens_again_inside_itself_and_afterwards():
    mode = padiff_shim.reference("torch")
    with mode as first:
        with mode as second:
            multiply()
        multiply()
    with mode as third:
        multiply()
    multiply()
    assert first is second is third is mode.run
    assert mode.run.substituted == {"matmul": 3}


@pytest.mark.compat
def test_closing_in_another_order():
    first, second = padiff_shim.reference("torch"), padiff_shim.reference("torch")
    first.start()
    second.start()
    first.stop()
    multiply()
    second.stop()
    assert (first.run.substituted, second.run.substituted) == ({}, {"matmul": 1})


@pytest.mark.compat
def test_stop_without_start():
    mode = padiff_shim.reference("torch")
    with pytest.raises(RuntimeError, match="not open"):
        mode.stop()
    mode.start()
    mode.stop()
    with pytest.raises(RuntimeError, match="not open"):
        mode.stop()
    padiff_shim.uninstall()  # never installed: nothing to do


@pytest.mark.compat
def test_an_exception_closes_the_mode_and_is_the_users_own():
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught, padiff_shim.reference("torch"):
        raise error
    assert caught.value is error


def test_backward_after_the_mode_was_closed_still_counts_and_works():
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        y = x @ x
    y.backward()
    assert run.backward == {"matmul": 1}
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


# ------------------------------------------------------------------------------------------------ decorators


class Model(paddle.nn.Layer):
    """Decorated in every place that a user may choose."""

    mode = padiff_shim.reference("torch")

    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(2, 2)

    @mode
    def forward(self, x):
        return self.fc(x)

    @classmethod
    @mode
    def inside(cls):
        return cls, multiply()

    @mode
    @classmethod
    def outside(cls):
        return cls, multiply()

    @mode
    @staticmethod
    def static():
        return multiply()


@pytest.mark.compat
def test_decorated_methods():
    net = Model()
    Model.mode.run._tallies.clear()
    net(paddle.ones([1, 2]))
    assert Model.mode.run.substituted == {"linear": 1}
    assert Model.inside()[0] is Model
    assert Model.outside()[0] is Model
    assert net.outside()[0] is Model
    Model.static()
    assert Model.mode.run.substituted == {"linear": 1, "matmul": 4}


@pytest.mark.compat
def test_a_decorated_function_keeps_its_face():
    @padiff_shim.reference("torch")
    def train(steps: int = 2) -> str:
        """Trains."""
        multiply(steps)
        return "done"

    assert train() == "done"
    assert train(steps=3) == "done"
    assert (train.__name__, train.__doc__) == ("train", "Trains.")
    assert train._self_wrapper.args[0].run.substituted == {"matmul": 5}


@pytest.mark.parametrize("thing", [Model, 3, "text", None])
def test_only_functions_can_be_decorated(thing):
    with pytest.raises(TypeError, match="decorate a function"):
        padiff_shim.reference("torch")(thing)


# ------------------------------------------------------------------------------------------------ generators and coroutines


@pytest.mark.compat
def test_a_suspended_plain_generator_keeps_its_mode_open_and_closes_it_when_dropped():
    def steps():
        with padiff_shim.reference("torch") as run:
            while True:
                multiply()
                yield run

    generator = steps()
    run = next(generator)
    next(generator)
    generator.close()
    multiply()
    assert run.substituted == {"matmul": 2}


@pytest.mark.compat
def test_a_decorated_generator_is_open_only_while_its_code_runs():
    mode = padiff_shim.reference("torch")
    seen = []

    @mode
    def steps():
        try:
            while True:
                try:
                    multiply()
                    seen.append((yield len(seen)))
                except KeyError as error:
                    seen.append(error)
                if len(seen) == 3:
                    return "end"
        finally:
            multiply()

    generator = steps()
    assert next(generator) == 0
    assert frames.top() is None
    multiply()
    assert generator.send("a") == 1
    error = KeyError("thrown")
    assert generator.throw(error) == 2
    with pytest.raises(StopIteration) as end:
        generator.send("b")
    assert end.value.value == "end"
    assert seen == ["a", error, "b"]
    assert mode.run.substituted == {"matmul": 4}

    generator = steps()
    seen.clear()
    next(generator)
    generator.close()
    assert mode.run.substituted == {"matmul": 6}


@pytest.mark.compat
def test_decorated_coroutine_and_isolated_tasks():
    mode = padiff_shim.reference("torch")
    seen = []

    @mode
    async def inside():
        multiply()
        await asyncio.sleep(0)
        multiply()

    async def outside():
        for _ in range(4):
            multiply()
            seen.append(frames.top())
            await asyncio.sleep(0)

    async def both():
        await asyncio.gather(inside(), outside(), inside())

    asyncio.run(both())
    assert mode.run.substituted == {"matmul": 4}
    assert seen == [None] * 4


def test_decorated_async_generator():
    mode = padiff_shim.reference("torch")

    @mode
    async def steps():
        try:
            for index in range(5):
                multiply()
                yield index
        finally:
            multiply()

    async def use():
        got = []
        async for item in steps():
            assert frames.top() is None
            got.append(item)
        partial = steps()
        await partial.__anext__()
        await partial.aclose()
        return got

    assert asyncio.run(use()) == [0, 1, 2, 3, 4]
    assert mode.run.substituted == {"matmul": 8}
