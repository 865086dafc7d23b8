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
import copy
import copyreg
import enum
import functools
import importlib
import inspect
import io
import pickle
import sys
import types
from typing import Any, ClassVar

__all__ = ["Receiver", "Sender", "Unsendable", "receive", "send", "settled"]


_reconstructor: Any = vars(copyreg)["_reconstructor"]
_Machine: Any = pickle._Unpickler  # the one in Python, whose instructions can be replaced


class Unsendable(Exception):
    """A value cannot leave, or may not enter, a process."""


_PACKAGES = ("numpy", "pandas", "scipy", "sklearn")
_PLOTTING = ("matplotlib", "mpl_toolkits", "seaborn")
_TORCH = ("torch",)
_DATA = _PACKAGES + _TORCH
_PLAIN = {
    "builtins": "bool bytearray bytes complex dict enumerate float frozenset int iter list "
    "object range reversed set slice str tuple zip",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "itertools": "chain count cycle repeat",
    "zoneinfo": "ZoneInfo",
}
_CALLED = {
    "copyreg": "_reconstructor",
    "evaluators.code.transport": "_pandas_array",
    "zoneinfo": "ZoneInfo._unpickle",
    "pytz": "_UTC _p",
    "dateutil.tz.tz": "tzutc tzlocal tzoffset",
    "numpy": "dtype",
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "numpy.ma.core": "_mareconstruct",
    "numpy.random._pickle": "__bit_generator_ctor __generator_ctor __randomstate_ctor",
    "pandas": "Interval Period Timedelta Timestamp",
    "pandas.core.indexes.base": "_new_Index",
    "pandas.core.indexes.datetimes": "_new_DatetimeIndex",
    "pandas.core.indexes.period": "_new_PeriodIndex",
    "pandas.core.arrays.interval": "IntervalArray.from_arrays",
    "pandas.core.internals.managers": "BlockManager SingleBlockManager",
    "pandas._libs.internals": "_unpickle_block BlockManager",
    "pandas._libs.interval": "Interval",
    "pandas._libs.missing": "NAType",
    "pandas._libs.tslibs.nattype": "__nat_unpickle _nat_unpickle",
    "pandas._libs.tslibs.offsets": "_offset_unpickle",
    "pandas._libs.tslibs.period": "_unpickle_period Period",
    "pandas._libs.tslibs.timedeltas": "_timedelta_unpickle",
    "pandas._libs.tslibs.timestamps": "_unpickle_timestamp",
    "sklearn.metrics._dist_metrics": "newObj",
    "sklearn.neighbors._ball_tree": "newObj",
    "sklearn.neighbors._kd_tree": "newObj",
    "sklearn.tree._tree": "Tree",
}
_CALLED_IN_PLOTS = {
    "evaluators.code.transport": "_stand_in _unchanged",
    "functools": "partial",
    "matplotlib.ticker": "FixedFormatter",
}
# What is kept for later in plots: methods of Matplotlib that do nothing but their own work.
_HELD = {"_AxesBase._unit_change_handler", "Axis._format_with_dict", "FigureBase._remove_axes"}
_CONSTANTS = {
    "builtins": "Ellipsis NotImplemented",
    "pandas": "NA NaT",
    "pandas._libs.missing": "NA",
}
_TYPED = {"dtype", "_dtype", "type", "default_factory"}


class Sender(pickle.Pickler):
    """Pickles data, with stand-ins for what is data in all but its class."""

    def __init__(self, buffer: io.BytesIO, *, plots: bool = False) -> None:
        super().__init__(buffer, protocol=4)
        self.plots = plots

    def persistent_id(self, value: Any) -> Any:
        """Send a tensor as an array: its own form would have the receiver load a program."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor):
            return None
        plain = value.detach().cpu()
        if plain.layout is not torch.strided:
            raise Unsendable(f"a tensor of layout {plain.layout}")
        dtype = str(plain.dtype).rpartition(".")[2]
        if plain.dtype is torch.bfloat16:
            plain = plain.float()
        kind = "parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
        return kind, dtype, plain.resolve_conj().resolve_neg().numpy(), bool(value.requires_grad)

    def reducer_override(self, value: Any) -> Any:
        """Send views and small containers of the program's own as the plain kind they equal."""
        if isinstance(value, collections.defaultdict) and not _ships(value.default_factory):
            return collections.defaultdict, (None,), None, None, iter(value.items())
        if isinstance(value, tuple) and type(value).__module__ in _OWN:
            return tuple, (list(value),)
        if isinstance(value, (type({}.keys()), type({}.values()))):
            return list, (list(value),)
        arrow = getattr(value, "_pa_array", None)
        if arrow is not None and hasattr(value, "to_numpy") and _is_from(value, "pandas"):
            # Arrow restores arrays from addresses and lengths that it does not check.
            return _pandas_array, (list(value), value.dtype)
        if self.plots:
            return _of_plot(value)
        return NotImplemented


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
        value = Receiver(data, plots=plots).load()
        return value if plots else settled(value)
    except Unsendable:
        raise
    except Exception as error:  # crafted bytes may fail anywhere
        raise Unsendable(f"{type(error).__name__}: {error}") from error


def settled(value: Any) -> Any:
    """Return a copy with memory of its own.

    Arrays of objects as they come out of a pickle are changed by ``astype(str)`` of pandas
    before 2.2, where those that were never pickled are copied.
    """
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied is as it is
        return value


class Receiver(_Machine):
    """The machine that reads pickles: see the module."""

    def __init__(self, data: bytes, *, plots: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.plots = plots
        self.packages = _DATA + _PLOTTING if plots else _DATA
        self.called: dict[int, Any] = {}  # by identity, and kept alive so that it stays theirs

    def find_class(self, module: str, name: str) -> Any:
        """Resolve a name, if it is one that data may use."""
        listed = name in _names(_PLAIN, module)
        called = listed or name in _names(_CALLED, module) or _restores(module, name)
        called = called or name in _names(_CONSTANTS, module)
        if self.plots and (module, name) == ("builtins", "getattr"):
            self.called[id(_method)] = _method
            return _method
        if self.plots:
            called = called or name in _names(_CALLED_IN_PLOTS, module)
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
        kind, dtype, array, grad = pid
        torch = importlib.import_module("torch")
        tensor = torch.from_numpy(array.copy()).to(getattr(torch, dtype))
        if kind == "parameter":
            return torch.nn.Parameter(tensor, requires_grad=grad)
        return tensor.requires_grad_(grad)

    def load_reduce(self) -> None:
        """Call a function, if it is a listed one."""
        function, arguments = self.stack[-2:]
        self._check_arguments(function, arguments)
        harmless = isinstance(function, type) and issubclass(function, _values())
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
        if not (self._welcome(plain) and plain.__qualname__ in _HELD):
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
        if _is_from(target, "numpy") and type(target).__name__.endswith("DType"):
            _check_dtype(self.stack[-1])

    def _check(self, target: Any, name: Any, value: Any) -> None:
        hidden = inspect.getattr_static(type(target), name, None) if isinstance(name, str) else None
        # Wrappers hold the methods of what they wrap; a colour bar replaces its axes' cla.
        same = isinstance(value, types.MethodType) and (value.__name__ == name or name == "cla")
        if isinstance(hidden, (types.FunctionType, classmethod, staticmethod)) and not same:
            raise Unsendable(f"an attribute that hides {type(target).__name__}.{name}")
        if not self.plots and name not in _TYPED and isinstance(value, (type, *_CALLABLES)):
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


def _names(table: dict[str, str], module: str) -> list[str]:
    return table.get(module, "").split()


def _restores(module: str, name: str) -> bool:
    """Tell the functions that Cython writes to restore its classes."""
    return name.startswith("__pyx_unpickle_") and module.partition(".")[0] in _PACKAGES


def _is_from(value: Any, package: str) -> bool:
    return type(value).__module__.partition(".")[0] == package


def _check_dtype(dtype: Any) -> None:
    """Refuse a dtype that would have NumPy take plain bytes for objects, or read elsewhere."""
    parts = [(field[0], field[1]) for field in (dtype.fields or {}).values()]
    if dtype.subdtype:
        parts.append((dtype.subdtype[0], 0))
    holds_objects = dtype.char == "O" or any(part.hasobject for part, _ in parts)
    inside = all(at >= 0 and at + part.itemsize <= dtype.itemsize for part, at in parts)
    if not inside or (holds_objects and dtype.flags & 0b11 != 0b11):
        raise Unsendable(f"the type {dtype!r}")


def _values() -> tuple[type, ...]:
    """Return the classes whose constructors only make a value."""
    found: list[type] = [enum.Enum]
    for module, name in (
        ("numpy", "generic"),
        ("pandas._libs.tslibs.offsets", "BaseOffset"),
        ("pandas.core.dtypes.base", "ExtensionDtype"),
    ):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def _method(target: Any, name: str) -> Any:
    """Return a method of a plot's part: in pickles of figures, what ``getattr`` is used for."""
    if type(target) is list and name == "remove":  # how an artist leaves its axes
        return target.remove
    top = type(target).__module__.partition(".")[0]
    if top not in _PLOTTING or name.startswith("__"):
        raise Unsendable(f"{type(target).__name__}.{name}")
    method = getattr(target, name)
    if not isinstance(method, types.MethodType):
        raise Unsendable(f"{type(target).__name__}.{name}, which is no method")
    return method
