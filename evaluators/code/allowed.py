"""What the receiver of a judged program's result may make: names, calls, and their limits."""

from __future__ import annotations

import enum
import sys
import types
from typing import Any

__all__ = [
    "CALLED",
    "CALLED_IN_PLOTS",
    "CONSTANTS",
    "DATA",
    "HELD",
    "PLAIN",
    "PLOTTING",
    "TYPED",
    "Unsendable",
    "check_dtype",
    "is_from",
    "method",
    "names",
    "restores",
    "values",
]


class Unsendable(Exception):
    """A value cannot leave, or may not enter, a process."""


PACKAGES = ("numpy", "pandas", "scipy", "sklearn")
PLOTTING = ("matplotlib", "mpl_toolkits", "seaborn")
DATA = (*PACKAGES, "torch")
PLAIN = {
    "builtins": "bool bytearray bytes complex dict enumerate float frozenset int iter list "
    "object range reversed set slice str tuple zip",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "itertools": "chain count cycle repeat",
    "zoneinfo": "ZoneInfo",
}
CALLED = {
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
CALLED_IN_PLOTS = {
    "evaluators.code.transport": "_stand_in _unchanged",
    "functools": "partial",
    "matplotlib.ticker": "FixedFormatter",
}
# What is kept for later in plots: methods of Matplotlib that do nothing but their own work.
HELD = {"_AxesBase._unit_change_handler", "Axis._format_with_dict", "FigureBase._remove_axes"}
CONSTANTS = {
    "builtins": "Ellipsis NotImplemented",
    "pandas": "NA NaT",
    "pandas._libs.missing": "NA",
}
TYPED = {"dtype", "_dtype", "type", "default_factory"}


def names(table: dict[str, str], module: str) -> list[str]:
    return table.get(module, "").split()


def restores(module: str, name: str) -> bool:
    """Tell the functions that Cython writes to restore its classes."""
    return name.startswith("__pyx_unpickle_") and module.partition(".")[0] in PACKAGES


def is_from(value: Any, package: str) -> bool:
    return type(value).__module__.partition(".")[0] == package


def check_dtype(dtype: Any) -> None:
    """Refuse a dtype that would have NumPy take plain bytes for objects, or read elsewhere."""
    parts = [(field[0], field[1]) for field in (dtype.fields or {}).values()]
    if dtype.subdtype:
        parts.append((dtype.subdtype[0], 0))
    holds_objects = dtype.char == "O" or any(part.hasobject for part, _ in parts)
    inside = all(at >= 0 and at + part.itemsize <= dtype.itemsize for part, at in parts)
    if not inside or (holds_objects and dtype.flags & 0b11 != 0b11):
        raise Unsendable(f"the type {dtype!r}")


def values() -> tuple[type, ...]:
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


def method(target: Any, name: str) -> Any:
    """Return a method of a plot's part: in pickles of figures, what ``getattr`` is used for."""
    if type(target) is list and name == "remove":  # how an artist leaves its axes
        return target.remove
    top = type(target).__module__.partition(".")[0]
    if top not in PLOTTING or name.startswith("__"):
        raise Unsendable(f"{type(target).__name__}.{name}")
    found = getattr(target, name)
    if not isinstance(found, types.MethodType):
        raise Unsendable(f"{type(target).__name__}.{name}, which is no method")
    return found
