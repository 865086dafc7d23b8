"""Carries values out of a judged program without believing anything it says.

A pickle is a program for a small machine, and whoever loads one runs it. The examiner loads
results with a machine of its own (:class:`Receiver`) whose instructions are cut down to what
data needs:

* names resolve to a fixed list of functions, and to classes of the science packages;
* only the listed functions and plain types are called; objects of other classes are made empty,
  without their constructor, and then filled;
* no class or module is changed, no attribute may hide a method of its class, and an attribute
  may be a function or a class only where data has them (``dtype``) or in plots;
* items are added to lists, sets and dicts alone.

So what arrives is an array, a frame, a number, a fitted model or a figure, with the behaviour of
the library's classes. An object of a class that the program defined itself does not arrive.
"""

from __future__ import annotations

import collections
import copyreg
import functools
import importlib
import inspect
import io
import pickle
import sys
import types
from typing import Any, ClassVar

from evaluators.code.allowed import (
    CALLED,
    CALLED_IN_PLOTS,
    CONSTANTS,
    DATA,
    HELD,
    PLAIN,
    PLOTTING,
    TYPED,
    Unsendable,
    check_dtype,
    is_from,
    method,
    names,
    restores,
    values,
)
from evaluators.code.tensors import packed, unpacked

__all__ = ["Receiver", "Sender", "Unsendable", "plainly", "receive", "send"]


_reconstructor: Any = vars(copyreg)["_reconstructor"]
_Machine: Any = pickle._Unpickler  # the one in Python, whose instructions can be replaced


class Sender(pickle.Pickler):
    """Pickles data, with stand-ins for what is data in all but its class."""

    def __init__(self, buffer: io.BytesIO, *, plots: bool = False) -> None:
        super().__init__(buffer, protocol=4)
        self.plots = plots

    def persistent_id(self, value: Any) -> Any:
        """Send a tensor as an array (:mod:`evaluators.code.tensors`)."""
        return packed(value)

    def reducer_override(self, value: Any) -> Any:
        """Send views and small containers of the program's own as the plain kind they equal."""
        if plain := plainly(value):
            return plain
        if isinstance(value, collections.defaultdict) and not _ships(value.default_factory):
            return collections.defaultdict, (None,), None, None, iter(value.items())
        if isinstance(value, tuple) and type(value).__module__ in _OWN:
            return tuple, (list(value),)
        if isinstance(value, (type({}.keys()), type({}.values()))):
            return list, (list(value),)
        arrow = getattr(value, "_pa_array", None)
        if arrow is not None and hasattr(value, "to_numpy") and is_from(value, "pandas"):
            # Arrow restores arrays from addresses and lengths that it does not check.
            return _pandas_array, (list(value), value.dtype)
        if self.plots:
            return _of_plot(value)
        return NotImplemented


def plainly(value: Any) -> Any:
    """Return a reduction of NumPy's simple types that restores the one object of each.

    NumPy's own makes another, and pandas before 2.2 has ``astype(str)`` change an array of such
    a type of objects in place, where it copies any other.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.dtype):
        return None
    simple = value.kind in "biufcmMOSU" and value.subdtype is None and not value.metadata
    return (numpy.dtype, (value.str,)) if simple else None


_OWN = (None, "__main__", "builtins")  # where classes and functions of the program live


def _ships(factory: Any) -> bool:
    return factory is None or factory in (int, float, list, dict, set, str)


def _of_plot(value: Any) -> Any:
    """Replace functions of the program's own: labels by what they made of the ticks."""
    ticker = sys.modules.get("matplotlib.ticker")
    if (
        ticker
        and isinstance(value, ticker.FuncFormatter)
        and getattr(value.func, "__module__", "") in _OWN
    ):
        axis = value.axis
        major = axis.get_major_formatter() is value
        places = axis.get_majorticklocs() if major else axis.get_minorticklocs()
        labels = [str(value(place, number)) for number, place in enumerate(places)]
        return ticker.FixedFormatter, (labels,), {"axis": axis, "locs": value.locs}
    return (_stand_in, ()) if _is_formula(value) else NotImplemented


def _is_formula(value: Any) -> bool:
    """Tell functions that an axis computes with; a figure that is drawn needs them no more."""
    if isinstance(value, types.FunctionType):
        return value.__module__ in _OWN or "<" in value.__qualname__
    if isinstance(value, types.BuiltinFunctionType):
        elementary = value.__module__ in ("builtins", "math", "operator")
        return elementary and value not in (getattr, iter) and isinstance(value.__self__, _MODULE)
    return type(value).__name__ == "ufunc"


def _pandas_array(values: list[Any], dtype: Any) -> Any:
    return importlib.import_module("pandas").array(values, dtype=dtype)


def _stand_in() -> Any:
    return _unchanged


def _unchanged(value: Any, *_: Any) -> Any:
    return value


def send(value: Any, *, plots: bool = False) -> bytes:
    """Return a value as bytes for :func:`receive`.

    Args:
        value: Data, or a list of figures.
        plots: Replace the program's own functions in figures by what stands for them.

    Raises:
        Unsendable: It holds something that cannot be pickled: a function of its own, a
            generator, an open file.
    """
    buffer = io.BytesIO()
    try:
        Sender(buffer, plots=plots).dump(value)
    except Unsendable:
        raise
    except Exception as error:  # any class may fail in any way
        raise Unsendable(f"{type(value).__name__}: {error}") from error
    return buffer.getvalue()


def receive(data: bytes, *, plots: bool = False) -> Any:
    """Return the value that :func:`send` was given.

    Args:
        data: What came.
        plots: Let matplotlib's figures in, and the functions they hold.

    Raises:
        Unsendable: The data asks for more than data needs, or is damaged.
    """
    try:
        return Receiver(data, plots=plots).load()
    except Unsendable:
        raise
    except Exception as error:  # crafted bytes may fail anywhere
        raise Unsendable(f"{type(error).__name__}: {error}") from error


class Receiver(_Machine):
    """The machine that reads pickles: see the module."""

    def __init__(self, data: bytes, *, plots: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.plots = plots
        self.packages = DATA + PLOTTING if plots else DATA
        self.called: dict[int, Any] = {}  # by identity, and kept alive so that it stays theirs

    def find_class(self, module: str, name: str) -> Any:
        """Resolve a name, if it is one that data may use."""
        listed = name in names(PLAIN, module)
        called = listed or name in names(CALLED, module) or restores(module, name)
        called = called or name in names(CONSTANTS, module)
        if self.plots and (module, name) == ("builtins", "getattr"):
            self.called[id(method)] = method
            return method
        if self.plots:
            called = called or name in names(CALLED_IN_PLOTS, module)
        if not called and module.partition(".")[0] not in self.packages:
            raise Unsendable(f"{module}.{name}")
        value: Any = importlib.import_module(module)
        for part in name.split(".") if called or self.plots else [name]:
            value = getattr(value, part)
        if called:
            self.called[id(value)] = value
        elif not self._welcome(value):
            raise Unsendable(f"{module}.{name}")
        return value

    def _welcome(self, value: Any) -> bool:
        top = str(getattr(value, "__module__", "")).partition(".")[0]
        if top not in self.packages:
            return False
        if getattr(value, "__name__", "") == "memmap":  # opens files as it is made
            return False
        return isinstance(value, type) or (self.plots and isinstance(value, types.FunctionType))

    def persistent_load(self, pid: Any) -> Any:
        """Make a tensor from the array that stands for it."""
        return unpacked(pid)

    def load_reduce(self) -> None:
        """Call a function, if it is a listed one."""
        function, arguments = self.stack[-2:]
        self._check_arguments(function, arguments)
        harmless = isinstance(function, type) and issubclass(function, values())
        if id(function) not in self.called and not harmless:
            raise Unsendable(f"a call of {getattr(function, '__name__', function)!r}")
        super().load_reduce()

    def _check_arguments(self, function: Any, arguments: Any) -> None:
        if function is iter and len(arguments) != 1:
            raise Unsendable("an iterator that calls")
        if function is functools.partial:
            self._check_held(arguments[0])
        if function is _reconstructor and arguments[1] not in (object, dict, list):
            raise Unsendable("an object of an odd kind")

    def _check_held(self, function: Any) -> None:
        plain = function.__func__ if isinstance(function, types.MethodType) else function
        if not (self._welcome(plain) and plain.__qualname__ in HELD):
            raise Unsendable(f"{getattr(plain, '__qualname__', plain)}, kept for later")

    def load_build(self) -> None:
        """Fill an object."""
        state, target = self.stack[-1], self.stack[-2]
        if isinstance(target, functools.partial):
            self._check_held(state[0])
        if isinstance(target, (type, types.FunctionType, types.ModuleType)):
            raise Unsendable(f"a change of {target!r}")
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        for part in parts:
            if isinstance(part, dict):
                for name, value in part.items():
                    self._check(target, name, value)
        super().load_build()
        if is_from(target, "numpy") and type(target).__name__.endswith("DType"):
            check_dtype(self.stack[-1])

    def _check(self, target: Any, name: Any, value: Any) -> None:
        hidden = inspect.getattr_static(type(target), name, None) if isinstance(name, str) else None
        # Wrappers hold the methods of what they wrap; a colour bar replaces its axes' cla.
        same = isinstance(value, types.MethodType) and (value.__name__ == name or name == "cla")
        if isinstance(hidden, (types.FunctionType, classmethod, staticmethod)) and not same:
            raise Unsendable(f"an attribute that hides {type(target).__name__}.{name}")
        if not self.plots and name not in TYPED and isinstance(value, (type, *_CALLABLES)):
            raise Unsendable(f"a function as {type(target).__name__}.{name}")

    def load_append(self) -> None:
        """Append to a list."""
        self._only(self.stack[-2], (list, collections.deque))
        super().load_append()

    def load_appends(self) -> None:
        """Append several items to a list."""
        self._only(self.metastack[-1][-1], (list, collections.deque))
        super().load_appends()

    def load_setitem(self) -> None:
        """Add to a dict."""
        self._only(self.stack[-3], (dict,))
        super().load_setitem()

    def load_setitems(self) -> None:
        """Add several items to a dict."""
        self._only(self.metastack[-1][-1], (dict,))
        super().load_setitems()

    def load_additems(self) -> None:
        """Add items to a set."""
        self._only(self.metastack[-1][-1], (set,))
        super().load_additems()

    def _only(self, target: Any, kinds: tuple[type, ...]) -> None:
        if not isinstance(target, kinds):
            raise Unsendable(f"items for a {type(target).__name__}")

    def _refuse(self) -> None:
        raise Unsendable("an outdated instruction")

    dispatch: ClassVar[dict[int, Any]] = dict(_Machine.dispatch)
    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.APPEND[0]] = load_append
    dispatch[pickle.APPENDS[0]] = load_appends
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems
    for opcode in (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID):
        dispatch[opcode[0]] = _refuse


_MODULE = types.ModuleType
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
