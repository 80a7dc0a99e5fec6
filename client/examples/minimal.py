#!/usr/bin/env python3
"""The least that an application in Python needs: what it protects, where it goes on, and when it saves."""
import cairn
import numpy

field, step = numpy.zeros(1000), numpy.zeros(1, dtype=numpy.uint64)
with cairn.Session() as session:                    # the run's directory is $CAIRN_PREFIX
    session.protect_value(1, "step", step)
    session.protect(2, field)
    session.resume()                                # the newest whole checkpoint; None: there is none
    print("from step", step[0])
    while step[0] < 100:
        field += 0.5 * numpy.arange(1000)
        step += numpy.uint64(1)
        if step[0] % 10 == 0:
            session.checkpoint(int(step[0]))        # a cairn.CairnError costs this checkpoint only
