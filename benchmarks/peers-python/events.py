"""Encoded events from a file, for Python: see `thalweg_workloads::segments` and `::ysb::fixed`."""

import numpy as np

HEAD = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("per_segment", "<u4"),
        ("seed", "<u8"),
        ("rate", "<u8"),
        ("count", "<u8"),
        ("hash", "<u8"),
    ]
)

YSB = np.dtype(
    [
        ("user", "V16"),
        ("page", "V16"),
        ("ad", "V16"),
        ("time", "<i8"),
        ("ip", ">u4"),
        ("ad_type", "u1"),
        ("event_type", "u1"),
        ("zeros", "V2"),
    ]
)


def ysb_segments(path):
    """The events of the Yahoo benchmark, an array for each segment: mapped, and read when touched."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    head = data[: HEAD.itemsize].view(HEAD)[0]
    if head["magic"] != b"ysb-64b\n" or head["version"] != 1:
        raise SystemExit(f"{path}: it holds other events")
    at, left = HEAD.itemsize, int(head["count"])
    while left > 0:
        length = int(data[at : at + 8].view("<u8")[0])
        at += 16
        segment = data[at : at + length].view(YSB)
        at += length
        left -= len(segment)
        yield segment
    if left < 0 or at != len(data):
        raise SystemExit(f"{path}: it is not what was written")
