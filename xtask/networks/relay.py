"""Forwards the packets of hosts that are network namespaces, as a bad network would.

    relay.py NAME=ADDRESS...

makes a TUN device for each name and says "ready" when they are there; whoever started it moves them into namespaces. A
packet to an address goes to the device of that address. Commands come on standard input, one a line, and each is answered
by a line on standard output:

    link FROM TO [delay=SECONDS] [jitter=SECONDS] [loss=PROBABILITY] [rate=BITS_A_SECOND] [cut=0|1]
    counts

`link` sets all properties of the way between two devices, in that direction; what is left out is that of a perfect link.
With jitter, packets overtake each other. `counts` answers how many packets were forwarded, lost, dropped by a full queue,
dropped by a cut, and sent after a packet that had come later. The relay ends at the end of its input.
"""

import fcntl
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
# Packets that are read from one device before it looks at others.
IN_TURN = 64
# What a narrow link holds, in seconds: more is dropped, as by a router.
QUEUE = 0.1


class Link:
    def __init__(self, delay=0.0, jitter=0.0, loss=0.0, rate=0.0, cut=0.0):
        self.delay, self.jitter, self.loss, self.rate, self.cut = delay, jitter, loss, rate, cut
        # When the last packet is through the narrow part.
        self.free_at = 0.0
        # When the packet arrives that arrives last.
        self.last = 0.0


class Counts:
    def __init__(self):
        self.forwarded = self.lost = self.dropped = self.cut = self.overtaken = 0


def device(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def accept(packet, link, counts, chance, now):
    """When a packet arrives, or None if it does not."""
    if link.cut:
        counts.cut += 1
        return None
    if link.loss and chance.random() < link.loss:
        counts.lost += 1
        return None
    through = now
    if link.rate:
        through = max(now, link.free_at)
        if through - now > QUEUE:
            counts.dropped += 1
            return None
        through += len(packet) * 8 / link.rate
        link.free_at = through
    due = through + link.delay
    if link.jitter:
        due += chance.random() * link.jitter
    if due < link.last:
        counts.overtaken += 1
    link.last = max(link.last, due)
    return due


def main():
    hosts = dict(argument.split("=") for argument in sys.argv[1:])
    tuns = {name: device(name) for name in hosts}
    names = {tun: name for name, tun in tuns.items()}
    at = {socket.inet_aton(address): name for name, address in hosts.items()}
    links = {(a, b): Link() for a in hosts for b in hosts if a != b}
    counts = Counts()
    chance = random.Random(1)
    # When a packet is due, its number, its device, and itself.
    waiting = []
    number = 0

    def command(line):
        words = line.split()
        if words[0] == "counts":
            c = counts
            return f"{c.forwarded} {c.lost} {c.dropped} {c.cut} {c.overtaken}"
        _, a, b, *properties = words
        given = dict(word.split("=") for word in properties)
        links[a, b] = Link(**{name: float(value) for name, value in given.items()})
        return "ok"

    def send(tun, packet):
        try:
            os.write(tun, packet)
            counts.forwarded += 1
        except OSError:
            # A device that is not up, or is full.
            counts.dropped += 1

    print("ready", flush=True)
    pending = b""
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([0, *names], [], [], pause)
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, tun, packet = heapq.heappop(waiting)
            send(tun, packet)
        for source in readable:
            if source == 0:
                read = os.read(0, 65536)
                if not read:
                    return
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    print(command(line.decode()), flush=True)
                continue
            for _ in range(IN_TURN):
                try:
                    packet = os.read(source, 65536)
                except OSError:
                    # Nothing more, or a device that is not up.
                    break
                # Only IPv4, to an address of this network.
                to = at.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                link = links.get((names[source], to))
                if link is None:
                    continue
                due = accept(packet, link, counts, chance, now)
                if due is None:
                    continue
                if due <= now:
                    send(tuns[to], packet)
                else:
                    number += 1
                    heapq.heappush(waiting, (due, number, tuns[to], packet))


main()
