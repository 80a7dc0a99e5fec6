"""libcairn for Python: protects numpy arrays, checkpoints them, and brings them back. It needs no MPI.

    import cairn, numpy
    field = numpy.zeros((1024, 1024))
    step = numpy.zeros(1, dtype=numpy.int64)
    with cairn.Session(prefix="/scratch/run7") as session:
        session.protect(0, field)
        session.protect_value(1, "step", step)
        try:
            session.resume()
        except cairn.DirtyError:
            field[:], step[:] = 0, 0
            session.protect(0, field)
            session.protect_value(1, "step", step)
        while step[0] < 1000:
            ...
            session.checkpoint(int(step[0]))

cairn.h says what holds here, too: threads, deadlines, the meaning of each code. A session keeps the arrays that it
protects alive. The module loads $CAIRN_LIB, or libcairn.so beside this file, or the one that the loader finds.
"""
import collections
import ctypes
import enum
import os

import numpy

DIMS_MAX = 8
NAME_MAX = 256
_PATH_BYTES = 8192
_DATASET_NAME_MAX = 1024


class Code(enum.IntEnum):
    OK = 0
    NOT_FOUND = 1
    INVALID_ARGUMENT = 2
    FAILED_PRECONDITION = 3
    BUSY = 4
    RETRY = 5
    SUPERSEDED = 6
    FAILED = 7
    FENCED = 8
    RESOURCE_EXHAUSTED = 9
    DEADLINE_EXCEEDED = 10
    UNAVAILABLE = 11
    DATA_LOSS = 12
    PERMISSION_DENIED = 13
    UNSUPPORTED = 14
    FORKED = 15
    INTERNAL = 16
    DIRTY = 17


class Level(enum.IntEnum):
    NONE = 0
    FROZEN = 1
    CAPTURED = 2
    LOCAL = 3
    REDUNDANT = 4
    PREFIX = 5


class Tier(enum.IntEnum):
    NONE = 0
    IMAGE = 1
    CACHE = 2
    PARTNER = 3
    REBUILT = 4
    PREFIX = 5
    REDUNDANT = 6


class Kind(enum.IntEnum):
    PLAIN = 0
    VALUE = 1
    ARRAY = 2


class Output(enum.IntFlag):
    CHECKPOINT = 1
    OUTPUT = 2
    GROWING = 4  # add it to one of the others: BP5 directories go to the prefix step by step


class CairnError(Exception):
    """A call failed. `dataset`: the number that Cairn had already given to a dataset that failed, or 0."""

    def __init__(self, code, message, dataset=0):
        super().__init__(message)
        self.code = Code(code)
        self.dataset = dataset


class DirtyError(CairnError):
    """Code.DIRTY: a failed restore may have left parts of a checkpoint in some rank's protected arrays. Initialise and
    protect all of them anew."""


Latest = collections.namedtuple("Latest", "dataset step")
Resumed = collections.namedtuple("Resumed", "step dataset tier")
Stored = collections.namedtuple("Stored", "id kind dtype name count shape start box_count nranks")

_TYPES = {
    "int8": 1, "int16": 2, "int32": 3, "int64": 4, "uint8": 5, "uint16": 6, "uint32": 7, "uint64": 8,
    "float32": 9, "float64": 10, "longdouble": 11, "complex64": 12, "complex128": 13, "S1": 15, "bool": 5,
}
_TYPE_OF = {numpy.dtype(name): code for name, code in _TYPES.items()}
_DTYPE_OF = {code: numpy.dtype(name) for name, code in _TYPES.items() if name != "bool"}


class _Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("prefix", ctypes.c_char_p), ("rank", ctypes.c_int32),
        ("nranks", ctypes.c_int32), ("launch", ctypes.c_char_p), ("address", ctypes.c_char_p),
        ("takeover", ctypes.c_int32), ("deadline_ms", ctypes.c_uint32), ("observer", ctypes.c_int32),
    ]


class _StoredInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("id", ctypes.c_int32), ("kind", ctypes.c_int32), ("type", ctypes.c_int32),
        ("ndims", ctypes.c_int32), ("count", ctypes.c_uint64), ("shape", ctypes.c_uint64 * DIMS_MAX),
        ("start", ctypes.c_uint64 * DIMS_MAX), ("box_count", ctypes.c_uint64 * DIMS_MAX),
        ("nranks", ctypes.c_uint32), ("name", ctypes.c_char * NAME_MAX),
    ]


def _declare(library):
    c = ctypes
    session, dataset, number = c.c_void_p, c.c_uint64, c.POINTER(c.c_uint64)
    arguments = {
        "open": [c.POINTER(_Options), c.POINTER(c.c_void_p)],
        "close": [session],
        "protect": [session, c.c_int32, c.c_void_p, c.c_uint64, c.c_int32],
        "protect_value": [session, c.c_int32, c.c_char_p, c.c_void_p, c.c_uint64, c.c_int32],
        "protect_array": [session, c.c_int32, c.c_char_p, c.c_void_p, c.c_int32, c.c_int32] + [number] * 5,
        "unprotect": [session, c.c_int32],
        "checkpoint": [session, c.c_uint64, number],
        "test": [session, dataset, c.c_int32, c.POINTER(c.c_int32)],
        "wait": [session, dataset, c.c_int32, c.c_uint32],
        "latest": [session, number, number],
        "set_name": [session, c.c_char_p],
        "redundancy": [session, c.c_char_p],
        "find": [session, c.c_char_p, number, number],
        "dataset_name": [session, dataset, c.c_char_p, c.c_size_t],
        "reject": [session, dataset],
        "stored": [session, dataset, c.c_uint64, c.POINTER(_StoredInfo)],
        "stored_by_id": [session, dataset, c.c_int32, c.POINTER(_StoredInfo)],
        "set_fill": [session, c.c_char_p, c.c_int32, c.c_void_p],
        "resume": [session, number],
        "restore": [session, dataset],
        "read": [session, dataset, c.c_char_p, number, number, c.c_void_p],
        "restored_tier": [session, c.POINTER(c.c_int32)],
        "restored_dataset": [session, number],
        "should_exit": [session, c.POINTER(c.c_int32)],
        "need_checkpoint": [session, c.POINTER(c.c_int32)],
        "output_begin": [session, c.c_uint64, c.c_uint32, number],
        "route_file": [session, c.c_char_p, c.c_char_p, c.c_size_t],
        "output_end": [session, c.c_int32],
        "restart_file": [session, dataset, c.c_char_p, c.c_char_p, c.c_size_t],
    }
    for name, types in arguments.items():
        function = getattr(library, "cairn_" + name)
        function.argtypes = types
        function.restype = c.c_int
    library.cairn_error.argtypes = [session]
    library.cairn_error.restype = c.c_char_p
    library.cairn_version.argtypes = []
    library.cairn_version.restype = c.c_char_p
    return library


def _load():
    given = os.environ.get("CAIRN_LIB")
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcairn.so")
    if given:
        return _declare(ctypes.CDLL(given))
    return _declare(ctypes.CDLL(beside if os.path.exists(beside) else "libcairn.so"))


class _Unloaded:
    """Loads libcairn at its first call: a program that only reads (open) does not need it."""

    def __getattr__(self, name):
        global _library
        _library = _load()
        return getattr(_library, name)


_library = _Unloaded()


def version():
    return _library.cairn_version().decode()


def open(path, check=True):
    """Opens a run's prefix or a BP5 directory, to read it as numpy arrays: cairn_reader.py, without libcairn."""
    import cairn_reader
    return cairn_reader.open(path, check)


def _text(value):
    return None if value is None else os.fsencode(value)


def _numbers(values):
    return (ctypes.c_uint64 * len(values))(*values)


def _type_of(array):
    if not isinstance(array, numpy.ndarray) or not array.flags.c_contiguous or not array.dtype.isnative:
        raise TypeError("a C-contiguous numpy array of native byte order is needed")
    try:
        return _TYPE_OF[array.dtype]
    except KeyError:
        raise TypeError(f"no type code for {array.dtype}") from None


def _protected_type_of(array):
    element = _type_of(array)
    if not array.flags.writeable:
        raise TypeError("a read-only array cannot be protected: a restore writes into it")
    return element


class Session:
    """One rank's connection. An argument that is None comes from the environment, or has the default of cairn_options.
    An observer joins no launch, and may call latest, find, dataset_name, stored, read, test and wait only."""

    def __init__(self, prefix=None, rank=None, nranks=None, launch=None, address=None, takeover=False, deadline_ms=0,
                 observer=False):
        self._handle = ctypes.c_void_p()
        self._arrays = {}
        options = _Options(
            struct_size=ctypes.sizeof(_Options), prefix=_text(prefix), rank=-1 if rank is None else rank,
            nranks=-1 if nranks is None else nranks, launch=_text(launch), address=_text(address),
            takeover=1 if takeover else 0, deadline_ms=deadline_ms, observer=1 if observer else 0)
        self._check(_library.cairn_open(ctypes.byref(options), ctypes.byref(self._handle)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def close(self):
        """Ends the session. The daemon goes on to make captured datasets safe."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        _library.cairn_close(handle)
        self._arrays.clear()

    def protect(self, id, array):
        """Protects this rank's array under an id of its own."""
        element = _protected_type_of(array)
        self._check(_library.cairn_protect(self._handle, id, array.ctypes.data, array.size, element))
        self._arrays[id] = array

    def protect_value(self, id, name, array):
        """Protects what is the same on all ranks, such as a loop counter."""
        element = _protected_type_of(array)
        self._check(
            _library.cairn_protect_value(self._handle, id, name.encode(), array.ctypes.data, array.size, element))
        self._arrays[id] = array

    def protect_array(self, id, name, array, shape, start, count=None, mem_start=None):
        """Protects this rank's box of a global array of `shape`: `count` elements (None: all of `array`) that lie at
        `mem_start` (None: at its beginning) in `array` and at `start` in the global one. Slowest dimension first."""
        element = _protected_type_of(array)
        ndims = array.ndim
        count = array.shape if count is None else count
        mem_start = (0,) * ndims if mem_start is None else mem_start
        if not ndims == len(shape) == len(start) == len(count) == len(mem_start):
            raise ValueError("shape, start, count and mem_start need one entry for each dimension of the array")
        self._check(
            _library.cairn_protect_array(
                self._handle, id, name.encode(), array.ctypes.data, element, ndims, _numbers(shape), _numbers(start),
                _numbers(count), _numbers(array.shape), _numbers(mem_start)))
        self._arrays[id] = array

    def unprotect(self, id):
        self._check(_library.cairn_unprotect(self._handle, id))
        self._arrays.pop(id, None)

    def checkpoint(self, step=0):
        """Hands all protected arrays to the daemon, and returns the dataset's number. If `step` is 0, the step is the
        number of this rank's calls in this launch."""
        dataset = ctypes.c_uint64()
        self._check(_library.cairn_checkpoint(self._handle, step, ctypes.byref(dataset)), dataset)
        return dataset.value

    def set_name(self, name):
        """Names the dataset that the next checkpoint or output_begin begins, for that one call; None: no name. All
        ranks give the same name."""
        self._check(_library.cairn_set_name(self._handle, None if name is None else name.encode()))

    def redundancy(self, scheme=None):
        """Says how datasets that begin from now on outlive the loss of nodes: "single", "partner", "xor", "rs" or
        "folder"; with the size of the sets "xor:7+1" or "rs:4+2". None: the default, CAIRN_REDUNDANCY or else the
        daemon's setting. All ranks give the same scheme."""
        self._check(_library.cairn_redundancy(self._handle, None if scheme is None else scheme.encode()))

    def test(self, dataset, level):
        reached = ctypes.c_int32()
        self._check(_library.cairn_test(self._handle, dataset, level, ctypes.byref(reached)))
        return bool(reached.value)

    def wait(self, dataset, level, timeout_ms):
        self._check(_library.cairn_wait(self._handle, dataset, level, timeout_ms))

    def resume(self):
        """Brings the newest checkpoint that is whole back into the protected arrays, and returns Resumed(step, dataset,
        tier). None: there is no checkpoint, and the arrays are untouched. DirtyError: there is none, and some rank's
        arrays may be touched."""
        step, dataset = ctypes.c_uint64(), ctypes.c_uint64()
        code = _library.cairn_resume(self._handle, ctypes.byref(step))
        if code == Code.NOT_FOUND:
            return None
        self._check(code)
        self._check(_library.cairn_restored_dataset(self._handle, ctypes.byref(dataset)))
        return Resumed(step.value, dataset.value, self._restored_tier())

    def latest(self):
        """Returns Latest(dataset, step) of the newest checkpoint that can be restored, the same on all ranks; None:
        there is none. resume does all of a restart by itself."""
        dataset, step = ctypes.c_uint64(), ctypes.c_uint64()
        code = _library.cairn_latest(self._handle, ctypes.byref(dataset), ctypes.byref(step))
        if code == Code.NOT_FOUND:
            return None
        self._check(code)
        return Latest(dataset.value, step.value)

    def find(self, name):
        """Returns Latest(dataset, step) of the newest whole dataset of that name; None: there is none."""
        dataset, step = ctypes.c_uint64(), ctypes.c_uint64()
        code = _library.cairn_find(self._handle, name.encode(), ctypes.byref(dataset), ctypes.byref(step))
        if code == Code.NOT_FOUND:
            return None
        self._check(code)
        return Latest(dataset.value, step.value)

    def dataset_name(self, dataset):
        """Returns the dataset's name in SCR's records: what set_name gave, or ckpt.<number>."""
        name = ctypes.create_string_buffer(_DATASET_NAME_MAX)
        self._check(_library.cairn_dataset_name(self._handle, dataset, name, _DATASET_NAME_MAX))
        return name.value.decode(errors="replace")

    def reject(self, dataset):
        """Says that the application cannot use what was restored: no restart chooses this dataset any more."""
        self._check(_library.cairn_reject(self._handle, dataset))

    def stored(self, dataset):
        """Lists the variables that the dataset holds, in the order of their ids. dtype None: the checkpoint was adopted
        from another system and the type is unknown; then count is in bytes."""
        found = []
        while True:
            info = _StoredInfo(struct_size=ctypes.sizeof(_StoredInfo))
            code = _library.cairn_stored(self._handle, dataset, len(found), ctypes.byref(info))
            if code == Code.NOT_FOUND:
                return found
            self._check(code)
            found.append(self._stored(info))

    def stored_by_id(self, dataset, id):
        info = _StoredInfo(struct_size=ctypes.sizeof(_StoredInfo))
        self._check(_library.cairn_stored_by_id(self._handle, dataset, id, ctypes.byref(info)))
        return self._stored(info)

    def restore(self, dataset):
        """Brings the dataset back into the protected arrays, and returns the Tier that served this rank. Code.RETRY:
        call latest again."""
        self._check(_library.cairn_restore(self._handle, dataset))
        return self._restored_tier()

    def _restored_tier(self):
        tier = ctypes.c_int32()
        self._check(_library.cairn_restored_tier(self._handle, ctypes.byref(tier)))
        return Tier(tier.value)

    def set_fill(self, name, value, dtype=None):
        """Says what stands for elements of the global array `name` that no rank has stored; None: they are an error
        again. Without dtype, numpy chooses the type."""
        if value is None:
            return self._check(_library.cairn_set_fill(self._handle, name.encode(), 0, None))
        element = numpy.array([value], dtype=dtype)
        self._check(_library.cairn_set_fill(self._handle, name.encode(), _type_of(element), element.ctypes.data))

    def read(self, dataset, name, start=None, count=None):
        """Returns elements [start, start + count) of a global array or a value, as a new numpy array. Without start it
        begins at the beginning, without count it goes to the end."""
        for one in self.stored(dataset):
            if one.kind is not Kind.PLAIN and one.name == name:
                break
        else:
            nothing = numpy.zeros(1, dtype=numpy.uint8)
            self._check(_library.cairn_read(self._handle, dataset, name.encode(), None, None, nothing.ctypes.data))
            raise CairnError(Code.NOT_FOUND, f"dataset {dataset} has neither array nor value {name!r}")
        shape = one.shape if one.kind is Kind.ARRAY else (one.count,)
        start = (0,) * len(shape) if start is None else tuple(start)
        count = tuple(n - at for n, at in zip(shape, start)) if count is None else tuple(count)
        if not len(shape) == len(start) == len(count):
            raise ValueError("start and count need one entry for each dimension of the array")
        if any(at < 0 or n < 0 or at + n > extent for at, n, extent in zip(start, count, shape)):
            raise ValueError(f"{count} elements from {start} on do not lie in the shape {shape}")
        out = numpy.empty(count, dtype=one.dtype)
        self._check(
            _library.cairn_read(
                self._handle, dataset, name.encode(), _numbers(start), _numbers(count), out.ctypes.data))
        return out

    def should_exit(self):
        """Should the run stop now? The answer is the same on all ranks; why() tells the reason."""
        flag = ctypes.c_int32()
        self._check(_library.cairn_should_exit(self._handle, ctypes.byref(flag)))
        return bool(flag.value)

    def need_checkpoint(self):
        """Is a checkpoint due now? The answer is the same on all ranks; why() tells the reason."""
        flag = ctypes.c_int32()
        self._check(_library.cairn_need_checkpoint(self._handle, ctypes.byref(flag)))
        return bool(flag.value)

    def why(self):
        """The reason why the last should_exit or need_checkpoint was true."""
        return _library.cairn_error(self._handle).decode(errors="replace")

    def output_begin(self, step, flags=Output.OUTPUT):
        dataset = ctypes.c_uint64()
        self._check(_library.cairn_output_begin(self._handle, step, flags, ctypes.byref(dataset)), dataset)
        return dataset.value

    def route_file(self, file):
        """Returns the path to which the application writes instead of `file`."""
        path = ctypes.create_string_buffer(_PATH_BYTES)
        self._check(_library.cairn_route_file(self._handle, _text(file), path, _PATH_BYTES))
        return os.fsdecode(path.value)

    def output_end(self, valid=True):
        self._check(_library.cairn_output_end(self._handle, 1 if valid else 0))

    def restart_file(self, dataset, file):
        """After restore or resume of a dataset of files: returns the path where `file` can be read."""
        path = ctypes.create_string_buffer(_PATH_BYTES)
        self._check(_library.cairn_restart_file(self._handle, dataset, _text(file), path, _PATH_BYTES))
        return os.fsdecode(path.value)

    def _check(self, code, dataset=None):
        if code != Code.OK:
            text = _library.cairn_error(self._handle).decode(errors="replace")
            error = DirtyError if code == Code.DIRTY else CairnError
            raise error(code, text, 0 if dataset is None else dataset.value)

    @staticmethod
    def _stored(info):
        n = info.ndims
        return Stored(info.id, Kind(info.kind), _DTYPE_OF.get(info.type), info.name.decode(errors="replace"),
                      info.count, tuple(info.shape[:n]), tuple(info.start[:n]), tuple(info.box_count[:n]), info.nranks)
