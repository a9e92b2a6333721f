// The digest by which contestants' answers are compared: the same as `protocol/src/digest.rs`, which defines it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

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

    // A row with a key of bytes.
    constexpr void add(std::string_view key, std::uint64_t value) {
        std::uint64_t hash = mix(key.size());
        for (std::size_t from = 0; from < key.size(); from += 8) {
            std::uint64_t word = 0;
            for (std::size_t at = 0; at < 8 && from + at < key.size(); at++) {
                word |= std::uint64_t{static_cast<unsigned char>(key[from + at])} << (8 * at);
            }
            hash = mix(hash ^ word);
        }
        rows += 1;
        sum += mix(hash ^ mix(value));
    }

    // A row with an integer key: the same as its 8 little-endian bytes.
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

constexpr Digest of_names() {
    Digest digest;
    digest.add("a", 1);
    digest.add("eight888", 2);
    digest.add("internationalisation", 3);
    digest.add("", 4);
    return digest;
}

constexpr Digest of_numbers() {
    Digest digest;
    digest.add_number(0, 0);
    digest.add_number(UINT64_MAX, 7);
    return digest;
}

// Also asserted by the definition in Rust, so that the two stay one.
static_assert(of_names().rows == 4 && of_names().sum == 0x8b3585ab4871d709u);
static_assert(of_numbers().rows == 2 && of_numbers().sum == 0x85320e3fa8fe6964u);

}  // namespace bench
