"""What an application does with client/python/cairn.py; ends with an exception if anything is not as it was."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python"))
sys.dont_write_bytecode = True
import cairn

field = numpy.arange(600, dtype=numpy.float64).reshape(20, 30)
block = numpy.arange(20, dtype=numpy.complex64).reshape(4, 5)
step = numpy.array([12], dtype=numpy.int64)
before = field.copy(), block.copy()

with cairn.Session(deadline_ms=5000) as session:
    assert session.latest() is None and session.resume() is None
    session.protect(1, field)
    session.protect_value(2, "step", step)
    session.protect_array(3, "block", block, shape=(6, 9), start=(1, 2), count=(2, 3), mem_start=(1, 1))
    constant = field.copy()
    constant.flags.writeable = False  # as what cairn.open and numpy.frombuffer give: a restore would write over it
    for wrong in (field.T, field.astype(">f8"), numpy.array(["text"]), [1.0], constant):
        for protect in (lambda array: session.protect(9, array),
                        lambda array: session.protect_value(9, "n", array),
                        lambda array: session.protect_array(9, "a", array, shape=(20, 30), start=(0, 0))):
            try:
                protect(wrong)
                raise SystemExit("protected what cannot be")
            except TypeError:
                pass
    dataset = session.checkpoint(12)
    session.wait(dataset, cairn.Level.LOCAL, 5000)
    assert session.test(dataset, cairn.Level.LOCAL)
    field[:] = 0
    step[:] = 0
    block[1:3, 1:4] = 0
    latest = session.latest()
    assert latest == (dataset, 12)
    assert session.restore(latest.dataset) is cairn.Tier.CACHE
    assert (field == before[0]).all() and (block == before[1]).all() and step[0] == 12
    field[:] = 0
    assert session.resume() == (12, dataset, cairn.Tier.CACHE)
    assert (field == before[0]).all()
    stored = session.stored(dataset)
    assert [one.id for one in stored] == [1, 2, 3]
    assert stored[2].kind is cairn.Kind.ARRAY and stored[2].shape == (6, 9) and stored[2].box_count == (2, 3)
    assert stored[2].dtype == numpy.complex64 and stored[2].name == "block"
    assert session.stored_by_id(dataset, 2).name == "step"
    session.set_fill("block", 0.5, dtype=numpy.complex64)
    session.set_fill("block", None)
    assert session.read(dataset, "step") == [12] and session.read(dataset, "step", (0,), (1,)).dtype == numpy.int64
    for wrong, code in (("none", cairn.Code.NOT_FOUND),):
        try:
            session.read(dataset, wrong)
            raise SystemExit("read what is not there")
        except cairn.CairnError as error:
            assert error.code is code
    try:
        session.read(dataset, "block", (5, 0), (2, 1))
        raise SystemExit("read beyond the shape")
    except ValueError:
        pass
    assert [session.need_checkpoint() for _ in range(4)] == [False, True, False, True]
    assert "every call 2" in session.why()
    assert [session.should_exit() for _ in range(3)] == [False, False, True]
    assert "enough" in session.why()
    try:
        session.unprotect(77)
        raise SystemExit("unprotected what is not there")
    except cairn.CairnError as error:
        assert error.code is cairn.Code.NOT_FOUND and "77" in str(error)
    session.output_begin(13, cairn.Output.CHECKPOINT)
    assert session.route_file("a") == "/cache/a"
    session.output_end()
    assert session.restart_file(dataset, "a") == "/cache/a"

    session.set_name("dropped")
    session.set_name(None)
    session.redundancy("xor:3+1")
    plain = session.checkpoint(14)
    try:
        session.redundancy("mirror")
        raise SystemExit("redundancy of no kind")
    except cairn.CairnError as error:
        assert error.code is cairn.Code.INVALID_ARGUMENT and "mirror" in str(error)
    session.redundancy()
    assert session.dataset_name(plain) == f"ckpt.{plain}" and session.find("dropped") is None
    session.set_name("Größe")
    named = session.checkpoint(15)
    assert session.find("Größe") == (named, 15) and session.dataset_name(named) == "Größe"
    session.reject(named)
    assert session.latest() is None
    try:
        session.reject(99)
        raise SystemExit("rejected what is not there")
    except cairn.CairnError as error:
        assert error.code is cairn.Code.NOT_FOUND

    session.checkpoint(666)  # is damaged: half of it is in the memory
    for dirty in (session.resume, session.latest, lambda: session.checkpoint(14)):
        try:
            dirty()
            raise SystemExit("went on with half a checkpoint")
        except cairn.DirtyError as error:
            assert error.code is cairn.Code.DIRTY and "protect all variables anew" in str(error)
    session.protect(1, field)
    session.protect_value(2, "step", step)
    session.unprotect(3)
    assert session.resume() is None
