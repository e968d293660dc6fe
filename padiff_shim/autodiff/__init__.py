"""PaDiff's calls, answered by this package: ``from padiff_shim.autodiff import auto_diff, LayerMap, assign_weight``..."""

from .auto_diff import assign_weight, auto_diff, check_dataloader, check_grad, check_weight
from .models import LayerMap, Model, add_special_init, create_model

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
