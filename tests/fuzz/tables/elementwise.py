"""Functions of single elements, and of pairs."""

from ..template import each

EVERYWHERE = (
    "abs sin cos tan sinh cosh tanh asinh atan erf exp expm1 neg sign sgn square floor ceil round trunc frac rad2deg deg2rad "
    "sigmoid stanh positive negative signbit isnan isinf isfinite isneginf isposinf isreal angle i0 i0e i1 i1e sinc nan_to_num conj"
)
METHODS = (
    "abs sin cos tanh exp neg sign square floor ceil round trunc sigmoid erf expm1 atan sinh cosh rad2deg nan_to_num isnan isfinite"
)
ABOVE_ZERO = "sqrt rsqrt log log2 log10 log1p reciprocal lgamma gammaln digamma"
WITHIN_ONE = "asin acos atanh erfinv"
PAIRS = "add subtract multiply maximum minimum fmax fmin atan2 hypot logaddexp copysign nextafter"
PAIR_METHODS = "add subtract multiply maximum minimum fmax fmin atan2 hypot"
ACTIVATIONS = (
    "relu relu6 elu selu celu gelu silu swish mish hardswish hardsigmoid hardtanh hardshrink softshrink softsign softplus "
    "tanhshrink thresholded_relu leaky_relu log_sigmoid sigmoid tanh"
)

TEMPLATES = (
    *each(EVERYWHERE, "paddle.@({x})"),
    *each(METHODS, "{x}.@()"),
    *each(ABOVE_ZERO, "paddle.@({x}.abs() + 0.5)"),
    *each("sqrt rsqrt log log2 log10 log1p reciprocal lgamma digamma", "({x}.abs() + 0.5).@()"),
    *each(WITHIN_ONE, "paddle.@(paddle.tanh({x}) * 0.9)"),
    *each("asin acos atanh erfinv", "({x}.tanh() * 0.9).@()"),
    *each(PAIRS, "paddle.@({x}, {y})"),
    *each(PAIR_METHODS, "{x}.@({y})"),
    *each("less_than less_equal greater_than greater_equal equal not_equal isclose", "paddle.@({x}, {y})"),
    *each("allclose equal_all", "paddle.@({x}, {s})"),
    *each(ACTIVATIONS, "F.@({x})"),
    "paddle.acosh({x}.abs() + 1.1)",
    "({x}.abs() + 1.1).acosh()",
    "paddle.logit(F.sigmoid({x}) * 0.8 + 0.1<;, eps=1e-3>)",
    "paddle.polygamma({x}.abs() + 0.5, <0;1;2>)",
    "paddle.multigammaln({x}.abs() + 2.5, <1;2;3>)",
    "paddle.divide({x}, {y}.abs() + 0.5)",
    "{x}.divide({y}.abs() + 0.5)",
    "{x} / ({y}.abs() + 0.5)",
    "<2.0;1;-0.5> / ({x}.abs() + 0.5)",
    "paddle.pow({x}.abs() + 0.5, <2;0.5;-1.5;3>)",
    "paddle.pow({x}, <2;3;1;0>)",
    "({x}.abs() + 0.5).pow({y})",
    "({x}.abs() + 0.5) ** <{y};2.5>",
    "<2.0;3> ** {x}",
    *each("remainder mod floor_mod", "paddle.@({x}, {y}.abs() + 0.5)"),
    "paddle.floor_divide({x}, {y}.abs() + 0.5)",
    "{x} // ({y}.abs() + 0.5)",
    "{x} % <0.75;2;({y}.abs() + 0.5)>",
    "paddle.heaviside({x}, {y})",
    "paddle.ldexp({x}, {n})",
    "paddle.lerp({x}, {y}, <0.3;paddle.to_tensor(0.7)>)",
    "{x}.lerp({y}, 0.25)",
    "paddle.gammainc({x}.abs() + 0.5, {y}.abs() + 0.5)",
    "paddle.gammaincc({x}.abs() + 0.5, {y}.abs() + 0.5)",
    "paddle.clip({x}, <-0.5, 0.5;min=0.0;max=0.25;paddle.to_tensor(-0.5), paddle.to_tensor(0.5)>)",
    "{x}.clip(<-1.0;0.0>, <1.0;0.5>)",
    "paddle.scale({x}, <2.0;-0.5>, <1.0;0.0>, bias_after_scale=<True;False>)",
    "paddle.frexp({x})",
    "paddle.where({x} > <0.0;0.5>, {x}, <{y};0.5>)",
    "paddle.nan_to_num({x}, nan=<0.0;1.0>, posinf=<None;2.0>)",
    "paddle.increment({[1]}, <1.0;0.5>)",
    "paddle.add_n([{x}, {s}<;, {s}>])",
    "paddle.multiplex([{m}, {[*m]}], {below 2 [m[0], 1]})",
    "paddle.reduce_as({x}, {x}.sum(<0;-1>, keepdim=True))",
    "{x} + <{y};1;0.5;True;np.float32(0.25);np.float64(1.5)>",
    "<1;0.5;2.0> - {x}",
    "{x} * <{y};2;-1.5;{n};{b}>",
    "-{x}",
    "abs({x})",
    "{x} <==;!=> {y}",
    "{x} > <0;0.5;{y}>",
    "F.gelu({x}, approximate=<True;False>)",
    "F.elu({x}, <0.5;2.0>)",
    "F.celu({x}, <0.5;2.0>)",
    "F.selu({x}, <1.5;1.05>, <1.0;1.7>)",
    "F.leaky_relu({x}, <0.2;0.0>)",
    "F.hardshrink({x}, <0.3;0.0>)",
    "F.softshrink({x}, <0.3;0.0>)",
    "F.softplus({x}, <2.0;0.5>, <20;1.0>)",
    "F.hardtanh({x}, <-0.5;0.0>, <0.5;1.0>)",
    "F.hardsigmoid({x}, <0.2;0.1666667>, <0.5;0.3>)",
    "F.thresholded_relu({x}, <0.5;1.0>, <0.0;-1.0>)",
    "F.prelu({u}, {[<1;u[1]>]})",
    "F.rrelu({x}, 0.1, 0.3, training=<False;True>)",
    "F.glu(paddle.concat([{r}, {r}], axis=<-1;0>), axis=<-1;0>)",
    "F.swiglu({r}, {[*r]})",
    "F.maxout({u}, <{= u[1]};1>)",
    "F.maxout({u}, groups={= u[1]}, axis=<1;-3>)",
    "paddle.special.softmax({r})",
    "paddle.special.expm1({x})",
    "F.softmax({r}, axis=<-1;0><;, dtype='float64'>)",
    "F.log_softmax({r}, axis=<-1;0>)",
    "paddle.incubate.softmax_mask_fuse({u}, {[u[0], 1, u[2], u[3]]})",
)
