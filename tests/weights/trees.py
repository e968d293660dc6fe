"""Models of given layers, in either framework."""

import paddle.nn as pnn
import torch.nn as tnn


def tree(base, runs=None, **layers):
    """A model of these layers; ``runs``: its forward, a function of the model and its input."""

    class Model(base):
        def __init__(self):
            super().__init__()
            for name, layer in layers.items():
                setattr(self, name, layer)

        if runs is not None:

            def forward(self, x):
                return runs(self, x)

    return Model()


def theirs(runs=None, **layers):
    return tree(tnn.Module, runs, **layers)


def ours(runs=None, **layers):
    return tree(pnn.Layer, runs, **layers)


def tlinear(*sizes, **options):
    return tnn.Linear(*sizes, **options)


def plinear(*sizes, **options):
    return pnn.Linear(*sizes, **options)
