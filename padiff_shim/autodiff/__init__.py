"""PaDiff's calls, answered by this package: ``from padiff_shim.autodiff import auto_diff, LayerMap, assign_weight``..."""

from .auto_diff import auto_diff
from .helpers import assign_weight, check_dataloader, check_grad, check_weight
from .layer_map import LayerMap, add_special_init
from .models import Model, create_model

__all__ = [
    "LayerMap",
    "Model",
    "add_special_init",
    "assign_weight",
    "auto_diff",
    "check_dataloader",
    "check_grad",
    "check_weight",
    "create_model",
]
