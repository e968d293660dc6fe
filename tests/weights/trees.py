"""Models of given layers, in either framework."""

import paddle.nn as pnn
import torch.nn as tnn


def tree(base, **layers):
    """A model of these layers."""

    class Model(base):
        def __init__(self):
            super().__init__()
            for name, layer in layers.items():
                setattr(self, name, layer)

    return Model()


def theirs(**layers):
    return tree(tnn.Module, **layers)


def ours(**layers):
    return tree(pnn.Layer, **layers)


def tlinear(*sizes, **options):
    return tnn.Linear(*sizes, **options)


def plinear(*sizes, **options):
    return pnn.Linear(*sizes, **options)
