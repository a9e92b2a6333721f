"""The digest by which answers are compared, in NumPy.

The definition is in `protocol/src/digest.rs` and in the benchmarks' README; the values asserted at
the end of this file are also asserted there, so that the two stay one definition. Run this file to
check them.
"""

import numpy as np

U64 = np.uint64


def mix(x):
    """The finaliser of SplitMix64, over an array."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def _total(hashes, values):
    rows = mix(hashes ^ mix(values.astype(U64)))
    return f"{len(rows)}:{int(np.sum(rows, dtype=U64)):016x}"


def of_numbers(keys, values):
    """The digest of rows with integer keys."""
    length = mix(np.array([8], dtype=U64))
    return _total(mix(length ^ keys.astype(U64)), values)


def of_words(keys, values):
    """The digest of rows whose keys are a list of strings without zero bytes."""
    keys = [key.encode() for key in keys]
    lengths = np.fromiter(map(len, keys), dtype=U64, count=len(keys))
    width = max(8, -(-int(lengths.max(initial=0)) // 8) * 8)
    padded = np.array(keys, dtype=f"S{width}")
    words = padded.view("<u8").reshape(len(keys), width // 8)
    hashes = mix(lengths)
    for column in range(words.shape[1]):
        inside = lengths > U64(column * 8)
        hashes = np.where(inside, mix(hashes ^ words[:, column]), hashes)
    return _total(hashes, values)


def of_rows(rows):
    """The digest of rows that are pairs of a string and a number."""
    keys, values = zip(*rows)
    return of_words(list(keys), np.array(values, dtype=U64))


def billionths(value):
    """What is left of a fraction that was computed in one way or another."""
    return int(value * 1e9 + 0.5)


def of_integer_rows(rows):
    """The digest of `thalweg_workloads::digest`, of rows of integers: few of them."""
    a, b = 0xD6E8FEB86659FD93, 0xA5B9E3D7C6F18B95
    mask = 2**64 - 1

    def fold(x, y):
        product = x * y
        return (product >> 64) ^ (product & mask)

    total = count = 0
    for row in rows:
        state = 0x2545F4914F6CDD1D
        for field in row:
            state = fold(state ^ (field & mask), a)
        total = (total + fold(state ^ a, b)) & mask
        count += 1
    return f"{count}:{total:016x}"


if __name__ == "__main__":
    words = ["a", "eight888", "internationalisation", ""]
    assert of_words(words, np.array([1, 2, 3, 4])) == "4:8b3585ab4871d709"
    numbers = np.array([0, 2**64 - 1], dtype=U64)
    assert of_numbers(numbers, np.array([0, 7])) == "2:85320e3fa8fe6964"
    print("the digests agree with their definition")
