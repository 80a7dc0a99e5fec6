"""Checkpoints and BP5 directories as numpy arrays, without a daemon. Use it through cairn.open:

    import cairn
    run = cairn.open("/scratch/run7")              # a run's prefix ...
    for dataset in run.datasets:
        print(dataset.id, dataset.step, run[dataset]["temperature"].max)
    part = run[12]["temperature"][10:20, ...]      # reads only what is asked for
    newest = run.latest["temperature"][...]

    fields = cairn.open("out/fields.bp")           # ... or a directory with many steps
    fields["T"].at(3)[...]; fields.step(3)["T"][...]; fields["T"].steps

A selection that lies contiguous in a file is not copied: the array is the mapped file, read-only, and keeps it open;
.copy() makes it one of your own. All else is read into new memory; what no writer stored is 0. The library is
$CAIRN_READER_LIB, or libcairn_reader.so beside this file, or the one that the loader finds.
"""
import collections
import collections.abc
import ctypes
import enum
import operator
import os

import numpy

import cairn_reader_calls as _calls
from cairn_reader_calls import Code, ReadError

_lib, _check, _Handle = _calls.library, _calls.check, _calls.Handle
_numbers, _text = _calls.numbers_of, _calls.text


class Kind(enum.Enum):
    GLOBAL_VALUE = "g"
    LOCAL_VALUE = "l"
    GLOBAL_ARRAY = "G"
    LOCAL_ARRAY = "L"
    JOINED_ARRAY = "J"


class Change(enum.IntEnum):
    UNCHANGED = 0
    GROWN = 1
    REPLACED = 2


Dataset = collections.namedtuple("Dataset", "id step launch bytes created nranks checkpoint output files")

_NAMES = {
    1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "uint8", 6: "uint16", 7: "uint32", 8: "uint64", 9: "float32",
    10: "float64", 11: "longdouble", 12: "complex64", 13: "complex128", 15: "S1",
}
_STRING = 14


def _dtype(type_code, element_bytes):
    if type_code == _STRING:
        return numpy.dtype(object)
    dtype = numpy.dtype(_NAMES.get(type_code, f"V{element_bytes}"))
    return dtype if dtype.itemsize == element_bytes else numpy.dtype(f"V{element_bytes}")


class _InPlace:
    """Memory of a mapped file as numpy takes it: read-only, and with the handle that it belongs to."""

    def __init__(self, handle, address, shape, dtype):
        self._handle = handle
        # Elements that numpy has no letters for come as bytes of their size.
        self.__array_interface__ = {
            "version": 3, "shape": tuple(shape), "typestr": dtype.str, "data": (address, True)}


def open(path):
    """A run's prefix as a Run, or a directory with an md.idx as a Directory."""
    path = os.fspath(path)
    if os.path.exists(os.path.join(path, "md.idx")):
        return Directory(_Handle(_lib.open, _lib.close, os.fsencode(path)), path)
    return Run(path)


def version():
    return _lib.version().decode()


class Run:
    """The datasets that are committed in a run's prefix, as of the last look."""

    def __init__(self, prefix):
        self.prefix = prefix
        self._handle = _Handle(_lib.open_run, _lib.close_run, os.fsencode(prefix))

    def refresh(self):
        """Looks again; the run itself, so that it can be chained."""
        _check(_lib.refresh_run(self._handle.pointer))
        return self

    @property
    def datasets(self):
        """All, oldest first."""
        found = []
        while True:
            info = _calls.DatasetInfo(struct_size=ctypes.sizeof(_calls.DatasetInfo))
            code = _lib.dataset(self._handle.pointer, len(found), ctypes.byref(info))
            if code == Code.NOT_FOUND:
                return found
            _check(code)
            found.append(Dataset(info.dataset, info.step, info.launch, info.bytes, info.created_us / 1e6, info.nranks,
                                 bool(info.checkpoint), bool(info.output), bool(info.files)))

    @property
    def latest(self):
        """The variables of the newest checkpoint. KeyError: there is none."""
        checkpoints = [dataset for dataset in self.datasets if dataset.checkpoint]
        if not checkpoints:
            raise KeyError(f"{self.prefix}: no checkpoint")
        return self[checkpoints[-1]]

    def __getitem__(self, dataset):
        """The variables of a dataset, by its number. KeyError: there is no such dataset."""
        number = operator.index(dataset.id if isinstance(dataset, Dataset) else dataset)
        known = next((one for one in self.datasets if one.id == number), None)
        if known is None:
            raise KeyError(number)
        handle = _Handle(_lib.open_dataset, _lib.close, self._handle.pointer, number)
        return Directory(handle, f"{self.prefix}, dataset {number}", known)

    def __iter__(self):
        return iter(self.datasets)

    def __len__(self):
        return _lib.datasets(self._handle.pointer)

    def __repr__(self):
        return f"<cairn run {self.prefix}: {len(self)} datasets>"


class Step(collections.abc.Mapping):
    """The variables that were written in one step, by name."""

    def __init__(self, directory, number):
        self.directory = directory
        self.number = number

    def __getitem__(self, name):
        variable = self.directory[name]
        if self.number not in variable.steps:
            raise KeyError(name)
        return variable.at(self.number)

    def __iter__(self):
        return (name for name in self.directory if self.number in self.directory[name].steps)

    def __len__(self):
        return sum(1 for _ in self)

    @property
    def attrs(self):
        """Attributes as they were at this step."""
        return self.directory._attributes(self.number)

    def __repr__(self):
        return f"<step {self.number} of {self.directory!r}>"


class Directory(collections.abc.Mapping):
    """The variables of a BP5 directory or of a dataset, by name. A variable shows the last step that it was written
    in; .at(step) and .step(number) the others. Steps count from 0."""

    def __init__(self, handle, name, dataset=None):
        self._handle = handle
        self._name = name
        self._generation = 0
        self.dataset = dataset  # that it is of, in a run

    def _info(self):
        info = _calls.Info(struct_size=ctypes.sizeof(_calls.Info))
        _check(_lib.get_info(self._handle.pointer, ctypes.byref(info)))
        return info

    @property
    def steps(self):
        """How many there are."""
        return self._info().steps

    @property
    def active(self):
        """A writer has it open, or died with it."""
        return bool(self._info().active)

    @property
    def attrs(self):
        """Attributes as they are at the last step."""
        steps = self.steps
        return self._attributes(steps - 1) if steps else {}

    def step(self, number):
        """The variables of one step; negative numbers count from the last one."""
        number, steps = operator.index(number), self.steps
        if not -steps <= number < steps:
            raise IndexError(f"step {number} of {steps}")
        return Step(self, number % steps)

    def refresh(self):
        """Reads what was added: a Change. After REPLACED steps and variables are others."""
        change = ctypes.c_int32()
        _check(_lib.refresh(self._handle.pointer, ctypes.byref(change)))
        self._generation += change.value != Change.UNCHANGED
        return Change(change.value)

    def __getitem__(self, name):
        if not isinstance(name, str) or "\0" in name:  # behind a NUL the library would not look
            raise KeyError(name)
        index, encoded = ctypes.c_uint64(), name.encode(errors="surrogateescape")
        code = _lib.find(self._handle.pointer, encoded, ctypes.byref(index))
        if code == Code.NOT_FOUND:
            raise KeyError(name)
        _check(code)
        return Variable(self, name)

    def __iter__(self):
        for index in range(len(self)):
            info = _calls.VariableInfo(struct_size=ctypes.sizeof(_calls.VariableInfo))
            _check(_lib.variable(self._handle.pointer, index, ctypes.byref(info)))
            yield _text(info.name)

    def __len__(self):
        return self._info().variables

    def _attributes(self, step):
        handle = _Handle(_lib.open_attributes, _lib.close_attributes, self._handle.pointer, step)
        found = {}
        for index in range(_lib.attribute_count(handle.pointer)):
            info = _calls.AttributeInfo(struct_size=ctypes.sizeof(_calls.AttributeInfo))
            _check(_lib.attribute(handle.pointer, index, ctypes.byref(info)))
            found[_text(info.name)] = _attribute(info)
        return found

    def __repr__(self):
        return f"<cairn {self._name}: {len(self)} variables, {self.steps} steps>"


def _attribute(info):
    if info.type == _STRING:
        values = [_text(info.strings[i]) for i in range(info.count)]
        return values[0] if info.single and values else values
    names = {11: 16, 12: 8, 13: 16}
    dtype = numpy.dtype(_NAMES[info.type])
    data = ctypes.string_at(info.values, info.count * names.get(info.type, dtype.itemsize)) if info.count else b""
    values = numpy.frombuffer(data, dtype)
    return values[0] if info.single and len(values) else values


def _box(key, shape):
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


class _Array:
    """What variables and blocks share: selecting from an array with a shape and a dtype."""

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(numpy.prod(self.shape, dtype=object))

    def __getitem__(self, key):
        return self.read(key)

    def __len__(self):
        if not self.shape:
            raise TypeError(f"{self!r} has no length")
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        found = numpy.asarray(self.read(...), dtype=dtype)
        return found.copy() if copy else found

    def _select(self, key, fill, handle, in_place, read):
        start, count, then = _box(key, self.shape)
        if 0 in count:
            return numpy.empty(count, self.dtype)[then]
        box, address = (len(count), _numbers(start), _numbers(count)), ctypes.c_void_p()
        _check(in_place(*box, ctypes.byref(address)))
        if address.value:
            return numpy.asarray(_InPlace(handle, address.value, count, self.dtype))[then]
        target = numpy.zeros(count, self.dtype) if fill == 0 else numpy.full(count, fill, self.dtype)
        _check(read(*box, target.ctypes.data, target.nbytes))
        return target[then]


class Variable(_Array):
    """A variable in one step, `step`: the last one that it was written in, or as .at chose. Reads when it is indexed:
    integers, slices (also with a stride) and an ellipsis."""

    def __init__(self, directory, name, step=None):
        self.directory = directory
        self.name = name
        self._chosen = step
        self._looked_at = None

    def _look(self):
        if self._looked_at == self.directory._generation:
            return
        handle, index = self.directory._handle, ctypes.c_uint64()
        _check(_lib.find(handle.pointer, self.name.encode(errors="surrogateescape"), ctypes.byref(index)))
        info = _calls.VariableInfo(struct_size=ctypes.sizeof(_calls.VariableInfo))
        _check(_lib.variable(handle.pointer, index.value, ctypes.byref(info)))
        self._index = index.value
        self._steps = tuple(info.steps[:info.nsteps])
        self._kind = Kind(chr(info.kind))
        self._dtype = _dtype(info.type, info.element_bytes)
        self._ndims = info.ndims
        self._looked_at = self.directory._generation

    @property
    def _place(self):
        return (self.directory._handle.pointer, self.index, self.step)

    @property
    def index(self):
        self._look()
        return self._index

    @property
    def steps(self):
        """In which it was written, rising."""
        self._look()
        return self._steps

    @property
    def kind(self):
        self._look()
        return self._kind

    @property
    def dtype(self):
        """Strings: object. Structures: their bytes, V<n>."""
        self._look()
        return self._dtype

    @property
    def step(self):
        return self.steps[-1] if self._chosen is None else self._chosen

    def at(self, step):
        """The same variable in another step."""
        step = operator.index(step)
        if step not in self.steps:
            raise IndexError(f"{self.name} was not written in step {step}")
        return Variable(self.directory, self.name, step)

    @property
    def shape(self):
        """In this step. Values: (); local values: one per writer. TypeError: a local array has blocks instead."""
        if self.kind is Kind.LOCAL_ARRAY:
            raise TypeError(f"{self.name}: a local array has no shape but blocks")
        ndims, shape = ctypes.c_int32(_calls.DIMS_MAX), (ctypes.c_uint64 * _calls.DIMS_MAX)()
        _check(_lib.shape(*self._place, ctypes.byref(ndims), shape))
        return tuple(shape[:ndims.value])

    @property
    def min(self):
        """Least element in this step as its writers noted it; None: they did not."""
        return self._min_max(self.step)[0]

    @property
    def max(self):
        return self._min_max(self.step)[1]

    @property
    def range(self):
        """(min, max) over all steps; (None, None): not noted."""
        return self._min_max(_calls.ALL_STEPS)

    def _min_max(self, step):
        has, least, greatest = ctypes.c_int32(), (ctypes.c_uint8 * 16)(), (ctypes.c_uint8 * 16)()
        _check(_lib.min_max(self.directory._handle.pointer, self.index, step, ctypes.byref(has), least, greatest))
        return _elements(self.dtype, least, greatest) if has.value else (None, None)

    @property
    def attrs(self):
        """Attributes called <name>/<attribute>, without the name, as they were at this step."""
        before = self.name + "/"
        found = self.directory._attributes(self.step)
        return {name[len(before):]: value for name, value in found.items() if name.startswith(before)}

    @property
    def blocks(self):
        """As the writers stored it, in their order."""
        if self.kind in (Kind.GLOBAL_VALUE, Kind.LOCAL_VALUE):
            raise TypeError(f"{self.name}: a value has no blocks")
        self._look()
        found, ndims = ctypes.c_uint64(), self._ndims
        _check(_lib.blocks(*self._place, 0, 0, None, None, None, ctypes.byref(found)))
        n = found.value
        infos, start, count = (_calls.BlockInfo * n)(), _numbers([0] * (n * ndims)), _numbers([0] * (n * ndims))
        _check(_lib.blocks(*self._place, 0, n, infos, start, count, ctypes.byref(found)))
        return [Block(self, i, infos[i], tuple(start[i * ndims:(i + 1) * ndims]),
                      tuple(count[i * ndims:(i + 1) * ndims])) for i in range(n)]

    def read(self, key=..., fill=0):
        """What [key] reads, with `fill` where nothing was stored. A local array of one block is that block."""
        if self.kind in (Kind.GLOBAL_VALUE, Kind.LOCAL_VALUE):
            return self._values(key)
        if self.kind is Kind.LOCAL_ARRAY:
            blocks = self.blocks
            if len(blocks) != 1:
                raise TypeError(f"{self.name}: a local array of {len(blocks)} blocks, read one of .blocks")
            return blocks[0].read(key)
        place = self._place
        return self._select(
            key, fill, self.directory._handle, lambda *rest: _lib.in_place(*place, *rest),
            lambda *rest: _lib.read(*place, *rest, None))

    def _values(self, key):
        if self.kind is Kind.GLOBAL_VALUE:
            value = self._value(_calls.FIRST_WRITER)
            _box(key, ())  # refuses what is not (), ...
            return value
        values = [self._value(writer) for writer in range(self.shape[0])]
        missing = [value is None for value in values]
        if self.dtype == object:
            return numpy.array(values, dtype=object)[key]
        array = numpy.zeros(len(values), self.dtype)
        for writer, value in enumerate(values):
            if value is not None:
                array[writer] = value
        return (numpy.ma.masked_array(array, missing) if any(missing) else array)[key]

    def _value(self, writer):
        address, size = ctypes.c_void_p(), ctypes.c_uint64()
        code = _lib.value(*self._place, writer, ctypes.byref(address), ctypes.byref(size))
        if code == Code.NOT_FOUND and writer != _calls.FIRST_WRITER:
            return None
        _check(code)
        data = ctypes.string_at(address.value, size.value)
        return _text(data) if self.dtype == object else numpy.frombuffer(data, self.dtype)[0]

    def __repr__(self):
        shape = "blocks" if self.kind is Kind.LOCAL_ARRAY else self.shape
        return f"<{self.name}: {self.dtype} {shape}, step {self.step}>"


def _elements(dtype, *numbers):
    return tuple(numpy.frombuffer(bytes(number)[:dtype.itemsize], dtype)[0] for number in numbers)


class Block(_Array):
    """What one writer stored of an array in one step, from `start` on (local arrays: from 0)."""

    def __init__(self, variable, number, info, start, count):
        self.variable = variable
        self.number = number
        self.writer = info.writer
        self.start = start
        self.shape = count
        self.dtype = variable.dtype
        self.min, self.max = _elements(self.dtype, info.min, info.max) if info.has_min_max else (None, None)
        self._place = variable._place
        self._handle = variable.directory._handle

    def read(self, key=...):
        place = self._place + (self.number,)
        return self._select(
            key, 0, self._handle, lambda *rest: _lib.block_in_place(*place, *rest),
            lambda *rest: _lib.read_block(*place, *rest))

    def __repr__(self):
        return f"<block {self.number} of {self.variable.name}: {self.dtype} {self.shape} by writer {self.writer}>"
