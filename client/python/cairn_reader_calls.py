"""libcairn_reader as ctypes see it: its structures, calls and handles, and what they are to numpy. Used by
cairn_reader.py."""
import ctypes
import enum
import operator
import os
import types

import numpy

DIMS_MAX = 64
ALL_STEPS = 2**64 - 1
BOUNDS = 1  # of all elements
STRING = 14
FIRST_WRITER = 2**32 - 1


class Code(enum.IntEnum):
    OK = 0
    NOT_FOUND = 1
    INVALID_ARGUMENT = 2
    FAILED_PRECONDITION = 3
    RESOURCE_EXHAUSTED = 9
    UNAVAILABLE = 11
    DATA_LOSS = 12
    PERMISSION_DENIED = 13
    INTERNAL = 16


class ReadError(Exception):
    """A call of libcairn_reader that did not answer OK."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = Code(code)


class DatasetInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("dataset", ctypes.c_uint64), ("step", ctypes.c_uint64),
        ("launch", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("created_us", ctypes.c_int64),
        ("nranks", ctypes.c_uint32), ("checkpoint", ctypes.c_int32), ("output", ctypes.c_int32),
        ("files", ctypes.c_int32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("steps", ctypes.c_uint64), ("variables", ctypes.c_uint64),
        ("active", ctypes.c_int32), ("column_major", ctypes.c_int32), ("flatten", ctypes.c_int32),
        ("ends_early", ctypes.c_int32),
    ]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("no_check", ctypes.c_int32)]


class VariableInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int32),
        ("type", ctypes.c_int32), ("element_bytes", ctypes.c_uint32), ("nsteps", ctypes.c_uint32),
        ("steps", ctypes.POINTER(ctypes.c_uint32)), ("expression", ctypes.c_char_p),
        ("has_operator", ctypes.c_int32), ("ndims", ctypes.c_int32),
    ]


class BlockInfo(ctypes.Structure):
    _fields_ = [
        ("writer", ctypes.c_uint32), ("has_min_max", ctypes.c_int32), ("min", ctypes.c_uint8 * 16),
        ("max", ctypes.c_uint8 * 16),
    ]


class AttributeInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("type", ctypes.c_int32),
        ("single", ctypes.c_int32), ("count", ctypes.c_uint64), ("values", ctypes.c_void_p),
        ("strings", ctypes.POINTER(ctypes.c_char_p)),
    ]


def _declare(loaded):
    """The calls by their names without cairn_reader_."""
    c = ctypes
    handle, place, text = c.c_void_p, [c.c_void_p, c.c_uint64, c.c_uint64], c.c_char_p
    number, numbers, out = c.c_uint64, c.POINTER(c.c_uint64), c.POINTER(c.c_void_p)
    box = [c.c_int32, numbers, numbers]
    integer = c.POINTER(c.c_int32)
    codes = {
        "open_run": [text, out],
        "refresh_run": [handle],
        "dataset": [handle, number, c.POINTER(DatasetInfo)],
        "open": [text, out],
        "open_dataset_with": [handle, number, c.POINTER(Options), out],
        "get_info": [handle, c.POINTER(Info)],
        "refresh": [handle, integer],
        "writers": [handle, number, c.POINTER(c.c_uint32)],
        "variable": [handle, number, c.POINTER(VariableInfo)],
        "find": [handle, text, numbers],
        "shape": place + [integer, numbers],
        "min_max": place + [integer, c.c_void_p, c.c_void_p],
        "value": place + [c.c_uint32, out, numbers],
        "blocks": place + [number, number, c.POINTER(BlockInfo), numbers, numbers, numbers],
        "read": place + box + [c.c_void_p, number, integer],
        "read_block": place + [number] + box + [c.c_void_p, number],
        "in_place": place + box + [out],
        "block_in_place": place + [number] + box + [out],
        "open_attributes": [handle, number, out],
        "attribute": [handle, number, c.POINTER(AttributeInfo)],
    }
    others = {
        "version": ([], text),
        "error": ([], text),
        "note": ([handle, number], text),
        "close_run": ([handle], None),
        "datasets": ([handle], number),
        "close": ([handle], None),
        "close_attributes": ([handle], None),
        "attribute_count": ([handle], number),
    }
    others.update((name, (arguments, c.c_int)) for name, arguments in codes.items())
    calls = types.SimpleNamespace()
    for name, (arguments, answer) in others.items():
        function = getattr(loaded, "cairn_reader_" + name)
        function.argtypes = arguments
        function.restype = answer
        setattr(calls, name, function)
    return calls


def _load():
    given = os.environ.get("CAIRN_READER_LIB")
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcairn_reader.so")
    if given:
        return _declare(ctypes.CDLL(given))
    return _declare(ctypes.CDLL(beside if os.path.exists(beside) else "libcairn_reader.so"))


library = _load()


def check(code):
    if code != Code.OK:
        raise ReadError(code, library.error().decode(errors="replace"))


def text(value):
    return value.decode(errors="surrogateescape")


def numbers_of(values):
    return (ctypes.c_uint64 * max(len(values), 1))(*values)


class Handle:
    """What the library opened, closed when nobody uses it any more: arrays in place do."""

    def __init__(self, open_it, close_it, *arguments):
        self._close = close_it
        self.pointer = ctypes.c_void_p()
        check(open_it(*arguments, ctypes.byref(self.pointer)))

    def __del__(self):
        if getattr(self, "pointer", None):
            self._close(self.pointer)


_NAMES = {
    1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "uint8", 6: "uint16", 7: "uint32", 8: "uint64", 9: "float32",
    10: "float64", 11: "longdouble", 12: "complex64", 13: "complex128", 15: "S1",
}


def dtype_of(type_code, element_bytes):
    if type_code == STRING:
        return numpy.dtype(object)
    dtype = numpy.dtype(_NAMES.get(type_code, f"V{element_bytes}"))
    return dtype if dtype.itemsize == element_bytes else numpy.dtype(f"V{element_bytes}")


class InPlace:
    """Memory of a mapped file as numpy takes it: read-only, and with the handle that it belongs to."""

    def __init__(self, handle, address, shape, dtype):
        self._handle = handle
        # Elements that numpy has no letters for come as bytes of their size.
        self.__array_interface__ = {
            "version": 3, "shape": tuple(shape), "typestr": dtype.str, "data": (address, True)}


def attribute_of(info):
    if info.type == STRING:
        values = [text(info.strings[i]) for i in range(info.count)]
        return values[0] if info.single and values else values
    names = {11: 16, 12: 8, 13: 16}
    dtype = numpy.dtype(_NAMES[info.type])
    data = ctypes.string_at(info.values, info.count * names.get(info.type, dtype.itemsize)) if info.count else b""
    values = numpy.frombuffer(data, dtype)
    return values[0] if info.single and len(values) else values


def elements(dtype, *numbers):
    return tuple(numpy.frombuffer(bytes(number)[:dtype.itemsize], dtype)[0] for number in numbers)


def box_of(key, shape):
    """Start and count of the box to be read for a key, and the key that makes of it what was asked for."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, one in enumerate(keys) if one is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have one ellipsis only")
    if not dots:
        dots = [len(keys)]
        keys.append(Ellipsis)
    missing = len(shape) - (len(keys) - 1)
    if missing < 0:
        raise IndexError(f"too many indices: there are {len(shape)} dimensions")
    keys[dots[0]:dots[0] + 1] = [slice(None)] * missing
    start, count, then = [], [], []
    for one, extent in zip(keys, shape):
        if isinstance(one, slice):
            wanted = range(*one.indices(extent))
            start.append(min(wanted[0], wanted[-1]) if wanted else 0)
            count.append(abs(wanted[-1] - wanted[0]) + 1 if wanted else 0)
            then.append(slice(None, None, wanted.step if wanted else None))
            continue
        try:
            place = operator.index(one)
        except TypeError:
            raise TypeError("indices are integers, slices and an ellipsis") from None
        if not -extent <= place < extent:
            raise IndexError(f"index {place} is out of bounds for a dimension of {extent}")
        start.append(place % extent)
        count.append(1)
        then.append(0)
    return start, count, tuple(then)
