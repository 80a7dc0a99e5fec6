"""Checkpoints and BP5 directories as numpy arrays, without a daemon. Use it through cairn.open:

    import cairn
    run = cairn.open("/scratch/run7")              # a run's prefix ...
    for dataset in run.datasets:
        print(dataset.id, dataset.step, run[dataset]["temperature"].max)
    part = run[12]["temperature"][10:20, ...]      # reads only what is asked for
    newest = run.latest["temperature"][...]

    fields = cairn.open("out/fields.bp")           # ... or a directory with many steps
    fields["T"].at(3)[...]; fields.step(3)["T"][...]; fields["T"].steps

A selection that is contiguous in a file is not copied: the array is the mapped file, read-only, and keeps it open.
.copy() makes an array of your own. Any other selection is read into new memory; elements that no writer stored are 0.
The reader compares what it reads of a run's datasets with the checksums in their catalogues, each MiB when it is first
touched; check=False switches this off. What people should know of a directory stands in .notes, and is a warning, too.
The module loads $CAIRN_READER_LIB, or libcairn_reader.so beside this file, or the one that the loader finds.
"""
import collections
import collections.abc
import ctypes
import enum
import operator
import os
import warnings

import numpy

import cairn_reader_calls as _calls
from cairn_reader_calls import Code, ReadError

_lib, _check, _Handle = _calls.library, _calls.check, _calls.Handle
_numbers, _text = _calls.numbers_of, _calls.text
_dtype, _elements, _box = _calls.dtype_of, _calls.elements, _calls.box_of


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

def open(path, check=True):
    """Opens a run's prefix as a Run, or a directory with an md.idx as a Directory. With `check`, bytes of a run that
    differ from their checksums are an error (ReadError, Code.DATA_LOSS). A directory by its path has no checksums."""
    path = os.fspath(path)
    if os.path.exists(os.path.join(path, "md.idx")):
        return Directory(_Handle(_lib.open, _lib.close, os.fsencode(path)), path)
    return Run(path, check)


def version():
    return _lib.version().decode()


class Run:
    """The datasets that are committed in a run's prefix, as of the last look."""

    def __init__(self, prefix, check=True):
        self.prefix = prefix
        self.check = check
        self._handle = _Handle(_lib.open_run, _lib.close_run, os.fsencode(prefix))

    def refresh(self):
        """Looks again, and returns the run itself, so that calls can be chained."""
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
        options = _calls.Options(struct_size=ctypes.sizeof(_calls.Options), no_check=not self.check)
        handle = _Handle(_lib.open_dataset_with, _lib.close, self._handle.pointer, number, ctypes.byref(options))
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
        self._warned = set()
        self._warn(4)

    def _warn(self, stacklevel):
        for note in self.notes:
            if note not in self._warned:
                self._warned.add(note)
                warnings.warn(note, stacklevel=stacklevel)

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
        """A writer has it open, or died before it closed it."""
        return bool(self._info().active)

    @property
    def ends_early(self):
        """It is closed, but damaged at its end: steps are missing. A note says how the damage was found."""
        return bool(self._info().ends_early)

    @property
    def notes(self):
        """What people should know of it, as of the last refresh."""
        found = []
        while (note := _lib.note(self._handle.pointer, len(found))) is not None:
            found.append(note.decode(errors="replace"))
        return found

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
        """Reads what was added, and returns a Change. After REPLACED, steps and variables are others."""
        change = ctypes.c_int32()
        _check(_lib.refresh(self._handle.pointer, ctypes.byref(change)))
        self._generation += change.value != Change.UNCHANGED
        self._warn(3)
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
            found[_text(info.name)] = _calls.attribute_of(info)
        return found

    def __repr__(self):
        return f"<cairn {self._name}: {len(self)} variables, {self.steps} steps>"


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
            return numpy.asarray(_calls.InPlace(handle, address.value, count, self.dtype))[then]
        target = numpy.zeros(count, self.dtype) if fill == 0 else numpy.full(count, fill, self.dtype)
        _check(read(*box, target.ctypes.data, target.nbytes))
        return target[then]


class Variable(_Array):
    """A variable in one step: the last one in which it was written, or the one that .at chose. It is read when it is
    indexed, with integers, slices (also with a stride) and an ellipsis."""

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
        """The steps in which it was written, in rising order."""
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
        """The shape in this step. Values: (); local values: one per writer. TypeError: a local array has none."""
        if self.kind is Kind.LOCAL_ARRAY:
            raise TypeError(f"{self.name}: a local array has no shape but blocks")
        ndims, shape = ctypes.c_int32(_calls.DIMS_MAX), (ctypes.c_uint64 * _calls.DIMS_MAX)()
        _check(_lib.shape(*self._place, ctypes.byref(ndims), shape))
        return tuple(shape[:ndims.value])

    @property
    def min(self):
        """The least element in this step, as its writers noted it; None: they did not."""
        return self._min_max(self.step)[0]

    @property
    def max(self):
        return self._min_max(self.step)[1]

    @property
    def range(self):
        """(min, max) over all steps; (None, None): the writers noted none."""
        return self._min_max(_calls.ALL_STEPS)[:2]

    @property
    def bounded(self):
        """True: no element in this step lies outside of min and max. False: some blocks have none noted."""
        return self._min_max(self.step)[2]

    @property
    def range_bounded(self):
        """The same for all steps, and for range."""
        return self._min_max(_calls.ALL_STEPS)[2]

    def _min_max(self, step):
        """Least, greatest, and whether they are of all elements."""
        has, least, greatest = ctypes.c_int32(), (ctypes.c_uint8 * 16)(), (ctypes.c_uint8 * 16)()
        _check(_lib.min_max(self.directory._handle.pointer, self.index, step, ctypes.byref(has), least, greatest))
        found = _elements(self.dtype, least, greatest) if has.value else (None, None)
        return found + (has.value == _calls.BOUNDS,)

    @property
    def attrs(self):
        """Attributes called <name>/<attribute>, without the name, as they were at this step."""
        before = self.name + "/"
        found = self.directory._attributes(self.step)
        return {name[len(before):]: value for name, value in found.items() if name.startswith(before)}

    @property
    def blocks(self):
        """The blocks as the writers stored them, in the order of the writers."""
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
        """Reads what [key] reads, with `fill` where nothing was stored. A local array of one block is that block."""
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
