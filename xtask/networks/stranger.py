"""Connects to an address without knowing the secret, for some seconds.

    stranger.py silent|rubbish|crowd ADDRESS PORT SECONDS

`silent` opens ten connections a second and says nothing, `rubbish` sends random bytes on one after another, and `crowd`
keeps hundreds open that say nothing. Prints how many connections were established.
"""

import os
import random
import socket
import sys
import threading
import time

# A crowd has so many threads, and each keeps so many connections open.
THREADS = 20
HELD = 20


def connect(address):
    connection = socket.socket()
    connection.settimeout(1)
    try:
        connection.connect(address)
        return connection
    except OSError:
        connection.close()
        return None


def rubbish(connection, chance):
    try:
        for _ in range(20):
            connection.sendall(os.urandom(chance.choice([1, 40, 1000, 60000])))
    except OSError:
        pass
    connection.close()


def run(how, address, end, established):
    chance, held = random.Random(1), []
    while time.monotonic() < end:
        connection = connect(address)
        if connection is None:
            time.sleep(0.02)
            continue
        established.append(1)
        if how == "rubbish":
            rubbish(connection, chance)
            continue
        held.append(connection)
        if how == "silent":
            time.sleep(0.1)
        elif len(held) > HELD:
            held.pop(0).close()
            time.sleep(0.1)


def main():
    how, host, port, seconds = sys.argv[1:]
    end, established = time.monotonic() + float(seconds), []
    arguments = (how, (host, int(port)), end, established)
    count = THREADS if how == "crowd" else 1
    threads = [threading.Thread(target=run, args=arguments) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(established))


main()
