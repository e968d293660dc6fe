"""Why calls run on Paddle's kernel: every reason there is, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..language import logged


@dataclass(frozen=True)
class Reason:
    """A reason for staying native.

    ``code`` tells it from all others. ``text`` is what a run shows and counts by, with names in braces for what differs from call
    to call. ``exact``: no rounding is lost to Paddle's kernel, so that strict mode does not object.
    """

    code: str
    text: str
    exact: bool = False


class StayNative(Exception):
    """This call runs natively. ``why`` is the :class:`Reason`, ``reason`` its text, with ``details`` in it, for the record."""

    def __init__(self, why: Reason, **details: Any) -> None:
        self.why, self.exact = why, why.exact
        self.reason = logged(why.text, **details)
        super().__init__(self.reason)


# What a mode leaves out.
FILTERED = Reason("filtered-op", "filtered out by ops= or exclude=", exact=True)
OUTSIDE_LAYERS = Reason("filtered-layer", "filtered out by layers=", exact=True)
FORKED = Reason("forked", "forked child process: torch kernels can hang there")

# What has no values, or nothing that is rounded.
STATIC = Reason("static", "static or PIR tracing: no values yet")
INTEGER = Reason("integer", "integer or bool result, exact in both", exact=True)
EMPTY = Reason("empty", "zero-size tensor: nothing is rounded, and Paddle has its own rules for it", exact=True)

# How the call was made.
TOO_MANY_ARGUMENTS = Reason("too-many-arguments", "more arguments than the op is known to take")
GIVEN_TWICE = Reason("given-twice", "argument {name!r} given twice")
MISSING = Reason("missing", "argument {name!r} is missing")
REDIRECTED = Reason("redirected", "result redirected by {name}=")
UNKNOWN_KEYWORD = Reason("unknown-keyword", "keyword {name!r} is not known for this op")
UNKNOWN_ATTRIBUTE = Reason("unknown-attribute", "attribute {name!r} is not known for this op")
UNKNOWN_VALUE = Reason("unknown-value", "attribute {name}={value!r} is not known for this op")
OLD_FORM = Reason("old-form", "legacy form of an op that the table knows by its newer one")
NOT_LEGACY = Reason("not-legacy", "not the legacy form: tensors, then names and values of attributes")
TENSOR_FOR_NUMBER = Reason("tensor-for-number", "a tensor where this entry point takes a number")
NO_TENSOR = Reason("no-tensor", "no tensor operand")
OPERAND_TYPE = Reason("operand-type", "operand of type {type}")
INTEGER_WANTS_GRADIENT = Reason("integer-wants-gradient", "integer operand that wants a gradient")
MIXED = Reason("mixed", "operands of several float dtypes")
COMPLEX = Reason("complex", "complex dtype")
NOT_A_MATRIX = Reason("not-a-matrix", "Linear weight is not a matrix")
PLACED = Reason("placed", "a device, memory or gradient of its own asked for")
BELOW = Reason("below", "made of ops that are compared one by one", exact=True)
PARTS = Reason("parts", "autocast casts each part of it by itself", exact=True)
WHOLE = Reason("whole", "whole numbers made of numbers: nothing is rounded, and nothing counted", exact=True)
ODD_CELL = Reason("odd-cell", "a cell with a projection, activations of its own or another rank: the ops that it calls are seen")

# What cannot cross into Torch.
DISTRIBUTED = Reason("distributed", "distributed tensor")
SPARSE = Reason("sparse", "sparse tensor")
NO_TWIN = Reason("no-twin", "dtype {dtype} has no torch twin")
UNINITIALISED = Reason("uninitialised", "uninitialised tensor")
PLACE = Reason("place", "place {place} is not shared with torch")
NOT_SHARED = Reason("not-shared", "cannot be shared through DLPack ({error})")

# In-place calls whose result would be another one.
NEGATIVE_STRIDES = Reason("negative-strides", "in-place on a view with negative strides, which torch does not have")
SHARED_ELEMENTS = Reason(
    "shared-elements", "in-place on a tensor whose elements share memory: the result depends on the order of writing"
)
OVERLAP = Reason("overlap", "in-place with an operand that overlaps the target: the result depends on the order of writing")
OTHER_RESULT = Reason("other-result", "in-place result of another shape or dtype")
LEAF = Reason("leaf", "in-place on a leaf that wants a gradient: Paddle refuses")

# What a kernel says of the call.
NATIVE_REFUSES = Reason("native-refuses", "native kernel refuses this call ({error})")
NO_KERNEL = Reason("no-kernel", 'Paddle has no kernel in {dtype} on this device, and kernels="paddle" takes no other')
TORCH_RAISED = Reason("torch-raised", "torch raised {type}: {error}")
RESULTS = Reason("results", "Paddle gives {paddle}, Torch's formula {torch}")
INDEPENDENT = Reason("independent", "Torch's result does not depend on what wants a gradient")

# Ops that no formula stands for.
NO_REFERENCE = Reason("no-reference", "no torch reference for this op yet")
OPTIMIZER = Reason("optimizer", "optimizer update, runs on Paddle's kernel", exact=True)
RANDOM = Reason("random", "random op: its values come from Paddle's generator")
RANDOM_ALONE = Reason("random-alone", "random op that Torch has no function for: its values come from Paddle's generator")
OTHER_WINDOWS = Reason("other-windows", "pooling at random fractions: Torch's function cuts other windows")
NOT_DRAWN = Reason("not-drawn", "draws nothing: the functions that it calls are seen by themselves", exact=True)
DRAWN = Reason("drawn", "random numbers: they come from Paddle's generator", exact=True)  # of no operands: nothing is rounded
EXECUTED = Reason("executed", "static program (Executor): its ops are not seen one by one")
PREDICTED = Reason("predicted", "static program (paddle.inference): its ops are not seen one by one")
COMPILED = Reason("compiled", "compiled program (to_static): its ops are not seen one by one")
FUSED = Reason("fused", "fused op: no single torch kernel stands for it")
NOT_ON_CPU = Reason("not-on-cpu", "fused op that Paddle has for other devices only: on the CPU it refuses it")
SPARSE_OP = Reason("sparse-op", "works on sparse tensors, which do not cross into Torch")
QUANTISED = Reason("quantised", "quantised arithmetic of Paddle's own: no Torch kernel computes the same")
DETECTION = Reason("detection", "a step of object detection: Torch itself has none of these")
EXPERTS = Reason("experts", "routing among experts: no single torch kernel stands for it")
TEXT = Reason("text", "works on sequences of Paddle's own layout (LoD), or on texts: Torch has no such function")
NO_COUNTERPART = Reason("no-counterpart", "Torch has no such function")
OTHER_DEVICE = Reason("other-device", "kernel for a device that Torch does not share (XPU)")
COUNTED = Reason("counted", "an integer, exact in both: how many singular values are above a tolerance", exact=True)
SAMPLING = Reason("graph-sampling", "draws or renumbers nodes of a graph: nothing is rounded", exact=True)
MACHINERY = Reason("machinery", "no op: asks or tells the framework something", exact=True)
COMMUNICATION = Reason("communication", "communication op", exact=True)
CUSTOM = Reason("custom", "custom C++ op")
RESULT_AMONG_ARGUMENTS = Reason("legacy-result", "legacy form with the result among the arguments")
CACHES = Reason("legacy-caches", "legacy form with caches among the arguments and results")
STATISTICS = Reason("legacy-statistics", "legacy form that returns the statistics too")
SLOPES = Reason("legacy-slopes", "legacy form that returns the random slopes too")
BESIDE_LOSS = Reason("legacy-beside-loss", "legacy form that returns more than the loss, or of another meaning")
OPTIONAL_TENSOR = Reason("legacy-optional", "legacy form with an optional tensor by position")
BROKEN = Reason("legacy-broken", "legacy form whose own backward fails")
ONE_STEP = Reason("step", "one step of a function that is in the table")
SEVERAL_IN_PLACE = Reason("several-in-place", "in-place form of an op with several results")
SUM_OF_LIST = Reason("legacy-sum", "sum of a list of tensors: no torch reference for this op yet")

# Optimizers.
UPDATE_FORM = Reason("update-form", "an update with {count} arguments, a form of it that is not known")
RESCALED = Reason("rescaled", "rescale_grad: Torch's optimizer has none")
BETA_POWERS = Reason("beta-powers", "the powers of beta belong to no number of steps, from which Torch's bias correction is made")
POWER_GONE = Reason(
    "power-gone", "beta's power has underflowed, and with it the number of steps, which Torch's momentum schedule needs"
)
HALF_POWERS = Reason(
    "half-powers", "powers of beta of 16 bits, which do not tell the number of steps from which Torch's bias correction is made"
)
SKIPPED_BY_TENSOR = Reason("skip-update", "a tensor says whether the update is skipped (static programs)")
SHARED_POWERS = Reason("shared-powers", "powers of beta that all parameters share")
SETTING = Reason("setting", "{name}={value}, of another type than Paddle takes")
CLIP_NORM = Reason("clip-norm", "a norm to clip at that is not greater than 0: Paddle refuses")
SKIPS_CLIP = Reason("skips-clip", "auto_skip_clip: Torch has no such clipping")
HALF_STATE = Reason("half-state", "accumulators of 16 bits, which do not hold the numbers that Torch's optimizer keeps in float32")
OTHER_STATE = Reason(
    "other-state", "accumulators that an update by Paddle's definition has left: Torch's keeps other numbers there"
)
NO_OPTIMIZER = Reason("no-optimizer", "called by no optimizer, whose accumulators the update needs")
STATE_DTYPE = Reason("state-dtype", "a {param} parameter with accumulators or a gradient of {other}, without a master weight")
STATE_LAYOUT = Reason("state-layout", "a parameter, gradient or accumulator that is not laid out contiguously")
