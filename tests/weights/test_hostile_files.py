"""Files that are made to harm: refused in bounded time, memory and words; nothing of them is built. Honest ones go on loading."""

import collections
import io
import os
import pickle
import re
import struct
import zipfile

import numpy as np
import paddle
import pytest
import torch
from helpers import in_child, thinned

import padiff_shim
from padiff_shim.weights import files

pytestmark = pytest.mark.compat
_MULTIARRAY = "numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray"


class Calls:
    """What is pickled as a call of a function, with a state or without."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


multiarray = pytest.importorskip(_MULTIARRAY)
FLOATS = np.dtype("f4")
LIE = Calls(np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0))
ENDLESS = b")\x94" + b"".join(b"h" + bytes([place]) + b"h" + bytes([place]) + b"\x86\x94" for place in range(60))  # 2^60 tuples
NAMED = b"X\x01\x00\x00\x00w"


def array(shape, dtype=FLOATS, data=b"AAAA", more=()):
    return {"w": Calls(multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, shape, dtype, False, data, *more))}


def shared(count):
    """Many arrays over the same bytes of the file."""
    data = b"B" + struct.pack("<I", 10**6) + b"A" * 10**6 + b"q\x00"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01J" + struct.pack("<i", 250_000)
    array += b"\x85cnumpy\ndtype\nX\x02\x00\x00\x00f4\x89\x88\x87R\x89h\x00tb"
    names = [b"X\x05\x00\x00\x00w%04d" % number for number in range(count)]
    return b"\x80\x04}(X\x01\x00\x00\x00x" + data + b"".join(name + array for name in names) + b"u."


PIECE = np.zeros(1000, "f4")
HOSTILE = {
    "a dtype that lies": {"w": Calls(tuple, (Calls(multiarray.scalar, (LIE, b"A" * 8)),))},
    "an array of a dtype that lies": array((1,), LIE, b"A" * 8),
    "a dtype with a state of its own": array((1,), Calls(np.dtype, ("f4", False, True), (3, "<", None, None, None, 8, 8, 63))),
    "objects": {"w": np.array([1, "a", None], dtype=object)},
    "records": {"w": np.zeros(3, dtype=[("a", "f4"), ("b", "O")])},
    "texts": {"w": np.array(["abc"])},
    "big-endian numbers": {"w": np.zeros(3, ">f4")},
    "a huge shape": array((2**40, 2**22)),
    "a negative shape": array((-1, -1)),
    "a shape beyond all numbers": array((10**5000,)),
    "nothing, and a huge shape": array((0, 2**62, 2**62), data=b""),
    "a hundred axes": array((1,) * 100),
    "too few bytes": array((2,)),
    "values in a list": array((1,), data=[1.0]),
    "no values": {"w": Calls(multiarray._reconstruct, (np.ndarray, (0,), b"b"))},
    "a class of arrays": {"w": Calls(multiarray._reconstruct, (np.matrix, (0,), b"b"), (1, (1, 1), FLOATS, False, b"AAAA"))},
    "a function": {"w": Calls(os.system, ("touch ran",))},
    "eval": {"w": Calls(eval, ("1",))},
    "a name that is hashed for ever": b"\x80\x04}" + ENDLESS + b"K\x01s.",
    "a name of something that is printed for ever": b"\x80\x04}" + ENDLESS + b"\x93.",
    "a place far away": b"\x80\x04}r\xff\xff\xff\x7fh\x05.",
    "bytes that it does not have": b"\x80\x04}" + NAMED + b"\x8e" + struct.pack("<Q", 2**62) + b"abc",
    "a number of a million digits": b"}" + NAMED + b"I" + b"9" * 10**6 + b"\ns.",
    "instructions without an end": b"\x80\x04}" + b"N" * (files.STEPS + 1) + b".",
    "nothing on the stack": b"\x80\x04s.",
    "another file's parts": b"\x80\x04}" + NAMED + b"Pabc\ns.",
    "an object": b"\x80\x04}" + NAMED + b"cnumpy\nndarray\n(K\x05\x85t\x81s.",
    "a name of tuples in one another": b"\x80\x04})" + b"\x85" * 10**6 + b"K\x01s.",
    "a long tuple in many places": b"\x80\x04}(" + b"K\x01" * 100 + b"t\x94h\x00K\x01s.",
    "bytes to write into that it does not have": b"\x80\x05}" + NAMED + b"\x96" + struct.pack("<Q", 2**62) + b"abc",
    "a state for a function": b"\x80\x04}" + NAMED + b"c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sbs.",
    "parts for a function": b"\x80\x04}" + NAMED + b"c_codecs\nencode\nK\x01as.",
    "arrays over the same bytes": shared(20),
    "a piece twice": {"UnpackBigParamInfor@@": {"w": {"OriginShape": (2000,), "slices": ["a", "b"]}}, "a": PIECE, "b": PIECE},
    "pieces that are none": {"w": PIECE, "UnpackBigParamInfor@@": {"w": {"OriginShape": "x", "slices": [("w",)]}}},
    "nothing": b"",
    "zeros": bytes(1000),
}


def refused(path, model):
    with pytest.raises(padiff_shim.PadiffShimError) as caught:
        padiff_shim.transfer_weights(path, model)
    message = str(caught.value)
    assert len(message) < 1500 + len(str(path))
    return message


@pytest.mark.parametrize("name", thinned(HOSTILE, *(HOSTILE.keys() - {"instructions without an end"})))
def test_a_hostile_file_of_paddle(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = HOSTILE[name]
    path = tmp_path / "hostile.pdparams"
    path.write_bytes(made if isinstance(made, bytes) else pickle.dumps(made, protocol=4))
    assert "is no state dict that can be read safely" in refused(path, torch.nn.Linear(3, 4))
    assert not (tmp_path / "ran").exists()


def test_a_file_that_lies_about_a_dtype_does_not_end_the_process(tmp_path):
    path = tmp_path / "hostile.pdparams"
    path.write_bytes(pickle.dumps(HOSTILE["a dtype that lies"], protocol=4))
    ended = in_child(f"padiff_shim.transfer_weights({str(path)!r}, torch.nn.Linear(3, 4))")
    assert ended.returncode == 1
    assert "FileError" in ended.stderr


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_damaged_files(protocol, tmp_path):
    """Each is read or refused in the library's own words."""
    rng, path = np.random.default_rng(protocol), tmp_path / "damaged.pdparams"
    whole = pickle.dumps({"weight": np.zeros((3, 4), "f4"), "bias": np.zeros(4, "f4")}, protocol=protocol)
    damaged = [whole[:cut] for cut in range(0, len(whole), 11)]
    for _ in range(60):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            changed[place] = rng.integers(0, 256)
        damaged.append(bytes(changed))
    lengths = [0]
    for data in damaged:
        path.write_bytes(data)
        try:
            padiff_shim.transfer_weights(path, torch.nn.Linear(3, 4))
        except padiff_shim.PadiffShimError as error:
            lengths.append(len(str(error)))
    assert max(lengths) < 1500 + len(str(path))


@pytest.mark.slow
def test_very_many_entries(tmp_path):
    path = tmp_path / "many.pdparams"
    path.write_bytes(pickle.dumps({f"w{number}": np.zeros(1, "f4") for number in range(20_000)}, protocol=4))
    message = refused(path, torch.nn.Linear(3, 4))
    assert re.findall(r"[\d,]+", message)[0] == "20,002"
    assert "19988" in message
    path.write_bytes(pickle.dumps(dict.fromkeys(map(str, range(files.MOST + 1)), 0), protocol=4))
    assert f"accepted are up to {files.MOST:,}" in refused(path, torch.nn.Linear(3, 4))


@pytest.mark.parametrize("name", ["x" * 10**6, ".".join("a" * 10**5), "9" * 10**4], ids=["long", "deep", "digits"])
def test_names_without_an_end(name, tmp_path):
    path = tmp_path / "names.pdparams"
    path.write_bytes(pickle.dumps({name: np.zeros(3, "f4")}, protocol=4))
    assert "names of a state dict have up to" in refused(path, torch.nn.Linear(3, 4))


def archive(data, method=zipfile.ZIP_STORED):
    """A file as Torch writes it, around a pickle."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, content in (("data.pkl", data), ("version", b"3\n"), ("byteorder", b"little"), ("data/0", bytes(10**7))):
            file.writestr(f"archive/{name}", content)
    return made.getvalue()


CHAIN = b"\x80\x02}q\xff)q\x00" + b"".join(b"h%ch%c\x86q%c" % (place, place, place + 1) for place in range(60))
TORCHS = {
    "a bomb": archive(pickle.dumps({}, 2), zipfile.ZIP_DEFLATED),
    "a name that is hashed for ever": archive(CHAIN + b"h\xffh\x3cK\x01s."),
    "a set that is hashed for ever": archive(CHAIN + b"c__builtin__\nset\n]h\x3ca\x85R."),
    "of an older Torch, hashed for ever": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."
    + CHAIN
    + b"h\xffh\x3cK\x01s.",
}


@pytest.mark.parametrize("name", TORCHS)
def test_a_hostile_file_of_torch(name, tmp_path):
    path = tmp_path / "hostile.pt"
    path.write_bytes(TORCHS[name])
    assert "hostile.pt is no" in refused(path, paddle.nn.Linear(3, 4))


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_go_on_loading(zipped, tmp_path):
    values, path = torch.arange(12.0).reshape(3, 4), tmp_path / "kinds.pt"
    kinds = {"a": values.bfloat16(), "b": values.t(), "c": values[1:], "d": torch.nn.Parameter(values), "e": torch.zeros(0, 3),
             "f": torch.tensor(2), "g": values.to(torch.complex64), "h": values, "step": 3, "size": torch.Size([1]), "set": {1, 2},
             "list": [1, 2.5, (3, "x")], "dtype": torch.float32, "ordered": "x"}  # fmt: skip
    torch.save(collections.OrderedDict(kinds), path, _use_new_zipfile_serialization=zipped)
    loaded, framework = files.read_file(path)
    assert framework == "torch"
    assert set(loaded) == {name for name, value in kinds.items() if isinstance(value, torch.Tensor)}
    assert all(torch.equal(loaded[name], kinds[name]) and loaded[name].dtype == kinds[name].dtype for name in loaded)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_files_of_paddle_go_on_loading(protocol, tmp_path):
    path = str(tmp_path / "kinds.pdparams")
    kinds = {dtype: paddle.ones([2, 3]).astype(dtype) for dtype in ("bool", "uint8", "int32", "float16", "bfloat16", "float64")}
    kinds.update(scalar=paddle.to_tensor(3.5), empty=paddle.zeros([0, 3]), fortran=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    paddle.save({**kinds, "step": 3, "rate": np.float32(0.5), "text": "x", "none": None}, path, protocol=protocol)
    loaded, framework = files.read_file(tmp_path / "kinds.pdparams")
    assert framework == "paddle"
    assert list(loaded) == list(kinds)
    for name, value in kinds.items():
        wanted = value if isinstance(value, np.ndarray) else value.numpy()
        assert loaded[name].dtype == wanted.dtype
        assert np.array_equal(loaded[name], wanted)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol):
    arrays = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array(1), "c": np.array([1 + 2j]), "d": np.zeros((0, 2))}
    plain = {
        "list": [1, 2.5, True, False, None],
        "big": 2**70,
        "less": -5,
        "tuple": (1, (2, 3), "é\n"),
        "bytes": b"x",
        "dict": {"a": {}},
    }
    loaded = files.load(pickle.dumps(collections.OrderedDict({**arrays, **plain}), protocol=protocol))
    for name, value in arrays.items():
        assert loaded[name].value.dtype == value.dtype
        assert np.array_equal(loaded[name].value, value)
    assert {name: loaded[name] for name in plain} == plain
