#!/usr/bin/python3
"""Who reaches whom? One line tells.

serve PORT                        TCP: counts the bytes of each connection and answers the number
dial ADDRESS PORT BYTES SECONDS   sends so many: "reached" and the milliseconds until the answer, or "unreached: …"
hear PORT SECONDS                 UDP: "listening", then "heard" or "silence"
say ADDRESS PORT                  sends a few datagrams
clock                             seconds since boot, and of the machine's calendar
"""

import socket
import sys
import time


def serve(port):
    server = socket.create_server(("", int(port)))
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            count = 0
            while block := connection.recv(1 << 16):
                count += len(block)
            connection.sendall(str(count).encode())


def dial(address, port, count, seconds):
    start = time.monotonic()
    try:
        with socket.create_connection((address, int(port)), timeout=float(seconds)) as connection:
            connection.sendall(bytes(int(count)))
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(64).decode()
        assert answer == count, answer
        print("reached", int((time.monotonic() - start) * 1000))
    except OSError as error:
        print("unreached:", error)


def hear(port, seconds):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("", int(port)))
        ear.settimeout(float(seconds))
        print("listening", flush=True)
        try:
            ear.recv(64)
            print("heard")
        except TimeoutError:
            print("silence")


def say(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        for _ in range(5):
            mouth.sendto(b"hello", (address, int(port)))


def clock():
    print(int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.clock_gettime(time.CLOCK_MONOTONIC)), int(time.time()))


if __name__ == "__main__":
    {f.__name__: f for f in (serve, dial, hear, say, clock)}[sys.argv[1]](*sys.argv[2:])
