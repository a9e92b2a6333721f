// The digest by which contestants' answers are compared: the same as `protocol/src/digest.rs`, which defines it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace bench {

// The finaliser of SplitMix64.
constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// The digest of an answer, built up row by row or merged from parts.
struct Digest {
    std::uint64_t rows = 0;
    std::uint64_t sum = 0;

    constexpr void add_number(std::uint64_t key, std::uint64_t value) {
        rows += 1;
        sum += mix(mix(mix(8) ^ key) ^ mix(value));
    }

    constexpr void merge(Digest other) {
        rows += other.rows;
        sum += other.sum;
    }

    std::string text() const {
        char buffer[48];
        std::snprintf(buffer, sizeof buffer, "%llu:%016llx", static_cast<unsigned long long>(rows),
                      static_cast<unsigned long long>(sum));
        return buffer;
    }
};

constexpr Digest by_definition() {
    Digest digest;
    digest.add_number(0, 0);
    digest.add_number(UINT64_MAX, 7);
    return digest;
}

// Also asserted by the definition in Rust, so that the two stay one.
static_assert(by_definition().rows == 2 && by_definition().sum == 0x85320e3fa8fe6964u);

}  // namespace bench
