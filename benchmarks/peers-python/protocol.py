"""The Python side of the protocol between the harness and a contestant.

See `protocol/src/lib.rs`: `PROGRAM CASE --name value ...`, a ready line, then one line of JSON for
each line `go`.
"""

import json
import sys
import time


class Request:
    """A contestant's command line: a case and its options."""

    def __init__(self, args):
        if not args:
            raise SystemExit("usage: PROGRAM CASE [--name value]...")
        self.case = args[0]
        self.options = {}
        rest = iter(args[1:])
        for arg in rest:
            if not arg.startswith("--"):
                raise SystemExit(f"expected an option, found {arg!r}")
            value = next(rest, None)
            if value is None:
                raise SystemExit(f"{arg} needs a value")
            self.options[arg[2:]] = value

    def __getitem__(self, name):
        if name not in self.options:
            raise SystemExit(f"--{name} is missing")
        return self.options[name]


def _reset_peak(process):
    try:
        with open(f"/proc/{process}/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # The peak is then that of the whole process, which is never too small.


def _peak(process):
    try:
        with open(f"/proc/{process}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def serve(request, work, digest, records, size, process="self"):
    """Serves rounds: `work()` is timed; `digest(answer)` and `records(answer)` are not.

    `process` is the one whose memory counts, where the work is done by another.
    """
    print(json.dumps({"ready": True}), flush=True)

    def one():
        _reset_peak(process)
        start = time.perf_counter()
        answer = work()
        seconds = time.perf_counter() - start
        peak = _peak(process)
        line = {
            "seconds": seconds,
            "digest": digest(answer),
            "records": records(answer),
            "bytes": size,
            "peak_rss": peak,
        }
        print(json.dumps(line), flush=True)

    if "rounds" in request.options:
        for _ in range(int(request["rounds"])):
            one()
        return
    for line in sys.stdin:
        if line.strip() != "go":
            raise SystemExit(f'expected "go", found {line.strip()!r}')
        one()
