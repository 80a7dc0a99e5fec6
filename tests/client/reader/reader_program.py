"""What an analysis does with cairn.open; ends with an exception if anything is not as tests/storage/file/bpdir/sample.h and
tests/client/reader/sample_run.h say. Arguments: the sample directory (three steps), the sample run."""
import gc
import os
import sys
import warnings

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "client", "python"))
sys.dont_write_bytecode = True
import cairn
from cairn_reader import Change, Code, Kind, ReadError

directory_path, run_path = sys.argv[1:]


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise SystemExit(f"not refused: {call}")


def check_variables(directory):
    assert directory.steps == 3 and not directory.active and len(directory) == 7
    assert sorted(directory) == ["a", "holes", "late", "n", "parts", "title", "who"]
    assert "a" in directory and "b" not in directory
    refused(KeyError, lambda: directory["b"])
    a = directory["a"]
    assert (a.shape, a.ndim, a.size, len(a), a.dtype) == ((4, 3), 2, 12, 4, numpy.float64)
    assert a.kind is Kind.GLOBAL_ARRAY and a.steps == (0, 1, 2) and a.step == 2
    assert (a.min, a.max, a.at(0).max, a.range) == (200, 211, 11, (0, 211))
    assert directory["holes"].min is None and directory["holes"].range == (None, None)
    assert a.bounded and a.range_bounded and not directory["holes"].bounded
    assert directory.attrs["title"] == "sample" and directory.attrs["steps"] == 2
    assert directory.step(1).attrs["steps"] == 1
    assert set(a.attrs) == {"unit", "scale"} and a.attrs["unit"] == "K" and list(a.attrs["scale"]) == [1.5, 2.5]
    refused(IndexError, lambda: a.at(3))
    refused(IndexError, lambda: directory.step(3))
    assert repr(a) == "<a: float64 (4, 3), step 2>"


def check_slices(directory):
    a, whole = directory["a"].at(1), 100 + numpy.arange(12.0).reshape(4, 3)
    keys = [
        ..., (), 0, -1, (2, 1), (-1, -1), slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1),
        (slice(3, 0, -2), 1), (..., 1), (1, ...), (..., slice(0, 2)), (slice(0, 0), slice(None)), slice(2, 1),
        (slice(-3, -1), slice(None, None, -2)), (numpy.int64(2), slice(9)),
    ]
    for key in keys:
        assert numpy.array_equal(a[key], whole[key]), key
        assert numpy.shape(a[key]) == whole[key].shape, key
    for key in (4, -5, (0, 0, 0), (..., ...)):
        refused(IndexError, lambda: a[key])
    for key in (None, 1.5, [0, 1], "x"):
        refused(TypeError, lambda: a[key])
    assert numpy.array_equal(numpy.asarray(a), whole) and numpy.asarray(a, dtype="f4").dtype == numpy.float32
    assert list(directory["holes"][...]) == [2, 0, 2, 0]
    assert list(directory["holes"].read(fill=-9)) == [2, -9, 2, -9]


def check_steps(directory):
    assert directory["late"].steps == (2,) and directory["late"][()] == 1.0
    assert "late" not in directory.step(0) and "late" in directory.step(-1) and len(directory.step(0)) == 6
    assert directory.step(1)["a"][0, 0] == 100 and directory["n"].at(1)[()] == 1
    refused(KeyError, lambda: directory.step(0)["late"])


def check_values_and_blocks(directory):
    assert directory["n"].shape == () and directory["n"].dtype == numpy.int32 and directory["n"][...] == 2
    assert directory["title"][()] == "step 2" and directory["title"].at(0)[()] == "step 0"
    assert list(directory["who"][...]) == [2, 12]
    odd = directory["who"].at(1)[...]
    assert odd.mask.tolist() == [True, False] and odd[1] == 11
    parts = directory["parts"]
    refused(TypeError, lambda: parts.shape)
    refused(TypeError, lambda: parts[...])
    refused(TypeError, lambda: directory["n"].blocks)
    blocks = parts.blocks
    assert [block.shape for block in blocks] == [(1,), (2,)] and [block.writer for block in blocks] == [0, 1]
    assert list(blocks[1][...]) == [2, 2] and blocks[1][-1] == 2 and blocks[0].max == 2
    a = directory["a"].blocks
    assert [block.start for block in a] == [(0, 0), (2, 0)] and a[1].min == 206
    assert numpy.array_equal(a[1][:, 1], [207, 210])


def check_in_place():
    directory = cairn.open(directory_path)
    rows = directory["a"][2:4]
    assert not rows.flags.owndata and not rows.flags.writeable
    refused(ValueError, lambda: rows.__setitem__((0, 0), 1))
    refused(ValueError, lambda: rows.setflags(write=True))
    across = directory["a"][1:3]
    across[0, 0] = 5  # read into memory of its own
    part = rows[1, 1:]
    del directory, rows
    gc.collect()
    assert part.tolist() == [210, 211]  # the array keeps the file


def check_run(run):
    assert [dataset.id for dataset in run.datasets] == [7, 8, 9] and len(run) == 3
    first, _, last = run.datasets
    assert (first.step, first.launch, first.nranks, first.checkpoint, first.files) == (100, 3, 2, True, False)
    assert abs(first.created - 1.7e9) < 1 and last.files and last.output
    assert run[7]["u"][1, 4:].tolist() == [10, 11] and run[first]["u"].max == 23
    assert run.latest.dataset.id == 8 and run.latest["u"][-1, -1] == 1023 and run.latest["time"][()] == 12.5
    assert run[7]["var_3"][...].tolist() == [5, -1, 9]  # a local array of one block
    assert run[9]["a"].at(1)[0, 0] == 100
    assert [dataset.id for dataset in run.refresh()] == [7, 8, 9]
    refused(KeyError, lambda: run[10])
    damaged = os.path.join(run_path, "ckpt.8", "Ckpt8-Rank1.fti")
    newest = run.latest
    with open(damaged, "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    error = refused(ReadError, lambda: newest["u"][2])
    assert error.code is Code.DATA_LOSS and damaged + ": offset 0: " in str(error)
    assert newest["u"][0, 0] == 1000
    assert cairn.open(run_path, check=False).latest["u"][2, :2].tolist() != [1012, 1013]
    error = refused(ReadError, lambda: cairn.open(run_path + "/none"))
    assert error.code is Code.NOT_FOUND and "none" in str(error)


directory = cairn.open(directory_path)
check_variables(directory)
check_slices(directory)
check_steps(directory)
check_values_and_blocks(directory)
check_in_place()
assert directory.refresh() is Change.UNCHANGED
check_run(cairn.open(run_path))
os.truncate(os.path.join(directory_path, "md.idx"), 64)
kept = directory["a"][2:4]
assert directory.notes == [] and not directory.ends_early
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert directory.refresh() is Change.REPLACED and directory.steps == 0 and len(directory) == 0
assert directory.ends_early and "steps are missing" in directory.notes[0]
assert [str(one.message) for one in warned] == directory.notes and warned[0].filename == __file__
assert kept[1, 2] == 211
