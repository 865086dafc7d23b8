from __future__ import annotations

import collections
import datetime
import decimal
import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evaluators.code.transport import Unsendable, receive, send

DATA: dict[str, Callable[[], Any]] = {
    "plain": lambda: [1, 2.5, "a", b"b", None, True, 1 + 2j, (1, {2}, {"k": [frozenset({3})]})],
    "standard library": lambda: [
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(1),
        decimal.Decimal("1.5"), collections.Counter("aab"), collections.deque([1]), range(3),
        collections.OrderedDict(a=1), collections.defaultdict(list, {1: [2]}), slice(1, 2),
    ],
    "arrays": lambda: [
        np.arange(6).reshape(2, 3), np.float64(2), np.array(["a", None], dtype=object),
        np.ma.array([1, 2], mask=[0, 1]), np.datetime64("2020"), np.array(["x"]), np.matrix([[1]]),
        np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("make", DATA.values(), ids=DATA.keys())
def test_data_arrives_as_it_was_sent(make: Callable[[], Any]) -> None:
    value = make()
    assert repr(receive(send(value))) == repr(value)


def test_pandas_arrives_with_all_its_types() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "int": [1, 2], "text": ["x", None], "day": pd.date_range("2020", periods=2),
            "zone": pd.date_range("2020", periods=2, tz="UTC"), "cat": pd.Categorical(["u", "v"]),
            "span": pd.timedelta_range(0, periods=2, freq="D"),
            "month": pd.period_range("2020", periods=2, freq="M"),
            "maybe": pd.array([1, None], dtype="Int64"), "inside": pd.interval_range(0, 2),
        }
    )  # fmt: skip
    pd.testing.assert_frame_equal(receive(send(frame)), frame)
    pd.testing.assert_series_equal(receive(send(frame["text"])), frame["text"])
    indexed = frame.set_index(["int", "day"])
    pd.testing.assert_frame_equal(receive(send(indexed)), indexed)
    for value in (
        pd.Timestamp("2020", tz="UTC"), pd.Timedelta(1), pd.NaT, pd.NA, pd.Period("2020"),
        pd.Interval(0, 1), pd.offsets.BDay(2),
    ):  # fmt: skip
        assert repr(receive(send(value))) == repr(value)


def test_fitted_models_and_sparse_matrices_arrive() -> None:
    pytest.importorskip("sklearn")
    sparse = pytest.importorskip("scipy.sparse")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x, y = np.random.default_rng(0).random((20, 3)), np.arange(20) % 2
    for model in (
        RandomForestClassifier(3, random_state=1),
        make_pipeline(StandardScaler(), SVC()),
    ):
        sent = receive(send(model.fit(x, y)))
        np.testing.assert_array_equal(sent.predict(x), model.predict(x))
    words = TfidfVectorizer().fit(["ab cd"])
    assert receive(send(words)).vocabulary_ == words.vocabulary_
    matrix = sparse.csr_matrix(np.eye(3))
    np.testing.assert_array_equal(receive(send(matrix)).toarray(), np.eye(3))


def test_tensors_arrive_without_their_own_pickle() -> None:
    torch = pytest.importorskip("torch")
    values = [
        torch.arange(6).reshape(2, 3), torch.tensor([1.5], dtype=torch.bfloat16),
        torch.tensor(True), torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(1)),
        torch.zeros(0, 3),
    ]  # fmt: skip
    for value, got in zip(values, receive(send(values)), strict=True):
        assert type(got) is type(value)
        assert got.dtype == value.dtype
        assert got.requires_grad == value.requires_grad
        assert torch.equal(got, value)
    assert b"_load_from_bytes" not in send(values)


def test_what_is_data_in_all_but_its_class_becomes_the_plain_kind() -> None:
    own = collections.namedtuple("own", "a b")
    own.__module__ = "builtins"  # as in a program that is executed
    assert receive(send(own(1, 2))) == (1, 2)
    assert receive(send(collections.defaultdict(lambda: 3, {1: 2}))) == {1: 2}
    assert receive(send({1: 2}.keys())) == [1]


def test_functions_generators_and_files_cannot_be_sent() -> None:
    for value in (lambda: 1, (i for i in []), sys.stdout, [io.StringIO]):
        with pytest.raises(Unsendable):
            receive(send(value))


class Call:
    """Pickles to a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def build(target: Any, state: Any) -> bytes:
    """A pickle that fills the target with the state."""
    head = pickle.dumps(target, protocol=4)[:-1]
    body = pickle.dumps(state, protocol=4)
    return head + body[2 + 9 if body[2:3] == b"\x95" else 2 : -1] + b"b."


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def arguments(*values: bytes) -> bytes:
    return b"(" + b"".join(values) + b"t"


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


HOSTILE = {
    "a system call": pickle.dumps(Call(__import__("os").system, "true")),
    "eval": pickle.dumps(Call(eval, "1")),
    "getattr": pickle.dumps(Call(getattr, 1, "real")),
    "an import": pickle.dumps(Call(__import__, "os")),
    "a module's module": named("numpy", "os") + b".",
    "a dotted way out": b"\x80\x04" + text("numpy") + text("os.system") + b"\x93.",
    "a dotted way into a class": b"\x80\x04" + text("numpy") + text("ndarray.tofile") + b"\x93.",
    "a function of numpy": named("numpy", "fromfile") + arguments(text("/etc/passwd")) + b"R.",
    "a constructor that opens a file": named("numpy", "memmap")
    + arguments(text("x"), text("uint8"), text("w+")) + b"R.",
    "an object whose making opens a file": named("numpy", "memmap")
    + arguments(text("x"), text("uint8"), text("w+")) + b"\x81.",
    "a function that finds any other": named("numpy.core", "_ufunc_reconstruct")
    + arguments(text("os"), text("system")) + b"R.",
    "a call kept for later": named("functools", "partial") + b"(t" + b"R.",
    "a call put into another": named("functools", "partial")
    + arguments(named("matplotlib.axes._base", "_AxesBase._unit_change_handler")) + b"R"
    + arguments(named("os", "system"), b"N", b"N", b"N") + b"b.",
    "an iterator that calls": b"cbuiltins\niter\n" + arguments(named("numpy", "matrix"), b"N")
    + b"R.",
    "the old way to call": b"(" + text("true") + b"ios\nsystem\n.",
    "the other old way": b"(" + named("os", "system") + text("true") + b"o.",
    "a registered extension": b"\x82\x01.",
    "a persistent name": b"Pname\n.",
    "a patched class": named("numpy", "ma.MaskedArray") + b"}" + text("all") + b"K\x01sb.",
    "a patched class by slots": named("numpy.ma.core", "MaskedArray")
    + arguments(b"N", b"}" + text("all") + b"K\x01s") + b"b.",
    "appending to an array": named("numpy", "ndarray") + b"(K\x01e.",
    "setting items of an array": named("numpy", "ndarray") + b"(K\x01K\x02u.",
    "garbage": b"\x80\x04garbage",
    "nothing": b"",
    "cut short": pickle.dumps([1, 2, 3])[:-3],
    "an endless length": b"\x8e" + b"\xff" * 8,
}  # fmt: skip


@pytest.mark.parametrize("plots", [False, True])
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_pickle_is_refused(data: bytes, plots: bool) -> None:
    before = np.ma.MaskedArray.all
    with pytest.raises(Unsendable):
        receive(data, plots=plots)
    assert np.ma.MaskedArray.all is before


def test_a_plot_does_not_smuggle_in_a_call() -> None:
    pytest.importorskip("matplotlib")
    ticker = "matplotlib.ticker"
    state = b"}" + text("func")
    for function in (named("os", "system"), named("matplotlib.cbook", "subprocess.run")):
        data = named(ticker, "FuncFormatter") + b")\x81" + state + function + b"sb."
        with pytest.raises(Unsendable):
            receive(data, plots=True)


def test_an_attribute_may_not_hide_a_method_or_be_a_function() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1]})
    with pytest.warns(UserWarning, match="doesn't allow columns"):
        frame.extra = [1]
    receive(send(frame))
    for name, value in (("equals", bool), ("extra", bool), ("extra", np.array), ("equals", 1)):
        loaded = _with_attribute(frame, name, value)
        with pytest.raises(Unsendable):
            receive(loaded)


def test_a_dtype_that_lies_about_its_objects_or_its_places_is_refused() -> None:
    honest = np.dtype([("a", "O"), ("b", "i8")])
    assert receive(send(honest)) == honest
    version, endian, sub, names, fields, size, alignment, flags = honest.__reduce__()[2]
    for changed in (
        (version, endian, sub, names, fields, size, alignment, 0),
        (version, endian, sub, names, fields, 8, alignment, flags),
    ):
        data = build(np.dtype("V16"), changed)
        with pytest.raises(Unsendable):
            receive(data)


def _with_attribute(frame: Any, name: str, value: Any) -> bytes:
    class Tampered(pickle.Pickler):
        def reducer_override(self, thing: Any) -> Any:
            if thing is frame:
                plain = frame.__reduce_ex__(4)
                return (*plain[:2], {**frame.__getstate__(), name: value}, *plain[3:])
            return NotImplemented

    buffer = io.BytesIO()
    Tampered(buffer, protocol=4).dump(frame)
    return buffer.getvalue()
