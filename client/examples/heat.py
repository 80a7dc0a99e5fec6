#!/usr/bin/env python3
"""Heat conduction on a square plate, in Python with numpy: one process, explicit steps.

What Cairn needs is in `protect`, `save` and `resume`. The arrays that are protected are changed in place, never
replaced: Cairn knows their memory.
"""

import argparse
import os
import signal
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))  # in the source tree
import cairn  # noqa: E402

STEP, FIELD = 1, 2
LEVELS = {"local": cairn.Level.LOCAL, "redundant": cairn.Level.REDUNDANT, "prefix": cairn.Level.PREFIX}


def options():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="The run's directory is $CAIRN_PREFIX. Start it again after a kill: it goes on.")
    parser.add_argument("--steps", type=int, default=400, help="steps to compute in all [400]")
    parser.add_argument("--every", type=int, default=50, help="a checkpoint after every N steps; 0: none [50]")
    parser.add_argument("--size", type=int, default=512, help="grid points in each dimension [512]")
    parser.add_argument("--out", help="write the final state there, raw")
    parser.add_argument("--wait", choices=LEVELS, help="after each checkpoint wait for this level")
    parser.add_argument("--die-at", type=int, default=0, help="kill itself in the middle of this step")
    return parser.parse_args()


def heat_up(step, field):
    """The beginning: a hot plate inside a cold edge of one cell."""
    size = len(field) - 2
    y, x = numpy.mgrid[0:size + 2, 0:size + 2] / (size + 1)
    field[:] = 100.0 * x * (1.0 - x) * y * (1.0 - y) + numpy.where(abs(x - y) < 0.1, 50.0, 0.0)
    field[0, :] = field[-1, :] = field[:, 0] = field[:, -1] = 0.0
    step[0] = 0


def advance(field, dies):
    """One step; `dies`: only half of it."""
    change = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] - 4.0 * field[1:-1, 1:-1]
    if dies:
        field[1:len(field) // 2, 1:-1] += 0.2 * change[:len(field) // 2 - 1]
        os.kill(os.getpid(), signal.SIGKILL)
    field[1:-1, 1:-1] += 0.2 * change


def protect(session, step, field):
    inner = tuple(n - 2 for n in field.shape)
    session.protect_value(STEP, "step", step)
    session.protect_array(FIELD, "temperature", field, shape=inner, start=(0, 0), count=inner, mem_start=(1, 1))


def save(session, step, level):
    """A checkpoint that fails costs only itself: the run goes on and tries again at the next one."""
    try:
        dataset = session.checkpoint(int(step[0]))
        if level is not None:
            session.wait(dataset, level, 60000)
        print(f"checkpoint of step {step[0]} is dataset {dataset}", flush=True)
    except cairn.CairnError as error:
        print(f"heat.py: checkpoint of step {step[0]}: {error}", file=sys.stderr)


def resume(session, step, field):
    try:
        resumed = session.resume()
    except cairn.DirtyError as error:  # no copy is whole, and part of one is in the arrays
        print(f"heat.py: {error}", file=sys.stderr)
        resumed = None
        heat_up(step, field)
        protect(session, step, field)
    if resumed is None:
        print("starting fresh", flush=True)
    else:
        tier = resumed.tier.name.lower()
        print(f"resumed from step {resumed.step} (dataset {resumed.dataset}, tier {tier})", flush=True)


def main():
    wanted = options()
    field = numpy.empty((wanted.size + 2, wanted.size + 2))
    step = numpy.empty(1, dtype=numpy.uint64)
    heat_up(step, field)
    session = None
    if wanted.every:
        session = cairn.Session()
        protect(session, step, field)
        resume(session, step, field)
    while step[0] < wanted.steps:
        advance(field, int(step[0]) + 1 == wanted.die_at)
        step += 1
        if session is not None and int(step[0]) % wanted.every == 0:
            save(session, step, LEVELS.get(wanted.wait))
    if wanted.out:
        field.tofile(wanted.out)
    if session is not None:
        session.close()
    print(f"done after step {step[0]}")


if __name__ == "__main__":
    try:
        main()
    except cairn.CairnError as failure:
        sys.exit(f"heat.py: {failure}")
