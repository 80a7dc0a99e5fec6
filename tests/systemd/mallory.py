#!/usr/bin/python3
"""A hostile user of the machine.

  mallory look USER UID PID SUPERVISOR  tries what is another's: folders of USER, PID (USER's worker), the supervisor.
                                        Prints "reached WHAT" for whatever lets it in, then "looked".
                                        As USER: what can be reached, without harm.
  mallory forge UID SECONDS             listens where the client of UID looks for a daemon of its own. Prints
                                        "listening", and "heard BYTES" of what comes.
  mallory rage SECONDS                  connections, garbage, frames without end, descriptors; stops, traces and kills
                                        the worker of its own. Prints "raged" and what it did.
"""

import array
import ctypes
import os
import resource
import signal
import socket
import sys
import time

RUN, CACHE = "/run/cairn", "/var/cache/cairn"
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(0.5)
    connection.connect(path)
    return connection


def trace(pid):
    if LIBC.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno())
    os.waitpid(pid, 0x40000000)


def read_memory(pid):
    here, there = ctypes.create_string_buffer(8), Vector(0x1000, 8)
    local = Vector(ctypes.cast(here, ctypes.c_void_p), 8)
    if LIBC.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(there), 1, 0) < 0:
        if ctypes.get_errno() == 14:  # EFAULT: only the address was wrong
            return
        raise OSError(ctypes.get_errno())


def look(user, uid, worker, supervisor):
    tries = {
        "runtime folder": lambda: os.listdir(f"{RUN}/{uid}"),
        "socket of the worker": lambda: connect(f"{RUN}/{uid}/cairnd-grpc.sock"),
        "log of the worker": lambda: open(f"{RUN}/{uid}/cairnd.log"),
        "cache": lambda: os.listdir(f"{CACHE}/{user}"),
        "lock of the cache": lambda: open(f"{CACHE}/cairnd.{uid}.lock"),
        "home": lambda: os.listdir(f"/home/{user}"),
        "status of all": lambda: connect(f"{RUN}/cairnd-status.sock"),
        "a name in the runtime folder": lambda: os.mkdir(f"{RUN}/9999"),
        "a name in the caches' folder": lambda: os.mkdir(f"{CACHE}/zoe"),
        "the sockets' names": lambda: os.rename(f"{RUN}/cairnd.sock", f"{RUN}/x"),
        "the supervisor's lock": lambda: open(f"{RUN}/cairnd.lock", "r+"),
    }
    for name, pid in (("worker", int(worker)), ("supervisor", int(supervisor))):
        tries |= {
            f"the {name}, by a signal": lambda pid=pid: os.kill(pid, 0),
            f"the {name}'s memory": lambda pid=pid: open(f"/proc/{pid}/mem", "rb"),
            f"the {name}'s pages": lambda pid=pid: read_memory(pid),
            f"the {name}'s descriptors": lambda pid=pid: os.listdir(f"/proc/{pid}/fd"),
            f"the {name}'s environment": lambda pid=pid: open(f"/proc/{pid}/environ").read(),
        }
        if os.getuid() == int(uid):
            continue  # what follows would harm it
        tries |= {
            f"the {name}, traced": lambda pid=pid: trace(pid),
            f"the {name}'s priority": lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
            f"the {name}'s limits": lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16)),
        }
    for what, attempt in tries.items():
        try:
            attempt()
            print("reached", what, flush=True)
        except OSError:
            pass
    print("looked", flush=True)


def forge(uid, seconds):
    folder = f"/tmp/cairn-{uid}"
    os.mkdir(folder, 0o755)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{folder}/cairnd.sock")
    os.chmod(f"{folder}/cairnd.sock", 0o666)
    listener.listen()
    print("listening", flush=True)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        listener.settimeout(max(0.01, end - time.monotonic()))
        try:
            connection, _ = listener.accept()
            connection.settimeout(1)
            print("heard", len(connection.recv(4096)), flush=True)
        except OSError:
            pass


def workers():
    for entry in os.listdir("/proc"):
        try:
            if os.stat(f"/proc/{entry}").st_uid == os.getuid() and open(f"/proc/{entry}/comm").read() == "cairnd\n":
                yield int(entry)
        except OSError:
            pass


def rage(seconds):
    end = time.monotonic() + float(seconds)
    counts = dict.fromkeys(("connections", "frames", "descriptors", "stopped", "traced", "killed"), 0)
    many, act = [], 0
    while time.monotonic() < end:
        try:
            for _ in range(100):
                many.append(connect(f"{RUN}/cairnd.sock"))
                counts["connections"] += 1
            many[-1].sendall(os.urandom(4096))
            # A frame that says that it is long, and does not end.
            many[-2].sendall(b"\xff\xff\xff\x7f" + bytes(1 << 16))
            counts["frames"] += 2
            null = os.open("/dev/null", os.O_RDONLY)
            control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 200))]
            many[-3].sendmsg([b"\0"], control)
            counts["descriptors"] += 200
            os.close(null)
        except OSError:
            pass
        if len(many) > 800:
            many = many[400:]
        for pid in workers():
            act += 1
            try:
                if act % 3 == 0:
                    os.kill(pid, signal.SIGKILL)
                    counts["killed"] += 1
                elif act % 3 == 1:
                    trace(pid)
                    LIBC.ptrace(PTRACE_DETACH, pid, None, None)
                    counts["traced"] += 1
                else:
                    os.kill(pid, signal.SIGSTOP)
                    counts["stopped"] += 1
            except OSError:
                pass
        time.sleep(0.2)
    print("raged", counts, flush=True)


{"look": look, "forge": forge, "rage": rage}[sys.argv[1]](*sys.argv[2:])
