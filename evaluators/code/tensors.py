"""Tensors as arrays: their own pickles would have whoever loads them run a program."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from evaluators.code.allowed import Unsendable

__all__ = ["packed", "unpacked"]


def packed(value: Any) -> Any:
    """Return a tensor's kind, type, values, and whether it is trained; None for other things.

    Raises:
        Unsendable: It is a tensor of a kind that has no array of its values.
    """
    torch = sys.modules.get("torch")
    if isinstance(value, getattr(torch, "Tensor", ())):
        return _from_torch(torch, value)
    flow = sys.modules.get("tensorflow")
    kinds: Any = (getattr(flow, "Tensor", ()), getattr(flow, "Variable", ()))
    if isinstance(value, kinds):
        kind = "flow variable" if hasattr(value, "assign") else "flow tensor"
        if not hasattr(value, "numpy"):
            raise Unsendable("a symbolic tensor")
        return kind, value.dtype.name, value.numpy(), bool(getattr(value, "trainable", False))
    return None


def unpacked(parts: Any) -> Any:
    """Return the tensor that :func:`packed` took apart."""
    kind, dtype, array, trained = parts
    if kind.startswith("flow"):
        flow: Any = importlib.import_module("tensorflow")
        if kind == "flow variable":
            return flow.Variable(array, dtype=str(dtype), trainable=bool(trained))
        return flow.constant(array, dtype=str(dtype))
    torch: Any = importlib.import_module("torch")
    tensor = torch.from_numpy(array.copy()).to(getattr(torch, dtype))
    if kind == "parameter":
        return torch.nn.Parameter(tensor, requires_grad=bool(trained))
    return tensor.requires_grad_(bool(trained))


def _from_torch(torch: Any, value: Any) -> Any:
    plain = value.detach().cpu()
    if plain.layout is not torch.strided:
        raise Unsendable(f"a tensor of layout {plain.layout}")
    dtype = str(plain.dtype).rpartition(".")[2]
    if plain.dtype is torch.bfloat16:
        plain = plain.float()
    kind = "parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
    return kind, dtype, plain.resolve_conj().resolve_neg().numpy(), bool(value.requires_grad)
