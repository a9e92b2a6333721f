// PageRank: what ranks are, as floating-point numbers and as integers.
#pragma once

#include "graph.hpp"

namespace bench {

// Ranks of which 85 % go along links.
struct Shares {
    using Value = double;
    double nodes;

    explicit Shares(Node nodes) : nodes(nodes) {}
    Value start() const { return 1 / nodes; }
    // What goes along each link.
    Value given(Value rank, std::uint32_t links) const { return rank / links; }
    // A node's new rank, of what comes to it and of the ranks of nodes without links.
    Value updated(Value sum, Value dangling) const { return 0.15 / nodes + 0.85 * (sum + dangling / nodes); }
    std::uint64_t number(Value rank) const { return static_cast<std::uint64_t>(std::llround(rank * nodes * 1e4)); }
};

// Surfers, of whom five in six go along links, as far as they divide.
struct Surfers {
    using Value = std::uint64_t;

    explicit Surfers(Node) {}
    Value start() const { return 6'000'000; }
    Value given(Value surfers, std::uint32_t links) const { return 5 * surfers / (6 * std::uint64_t{links}); }
    Value updated(Value sum, Value) const { return sum + 1'000'000; }
    std::uint64_t number(Value surfers) const { return surfers; }
};

// Fills in what each node gives along each of its links; answers what nodes without links have.
template <typename Ranks>
typename Ranks::Value give(const Ranks& ranks, const std::vector<typename Ranks::Value>& values,
                           const std::vector<std::uint32_t>& degrees, typename Ranks::Value* given, Node begin, Node end) {
    typename Ranks::Value dangling = 0;
    for (Node node = begin; node < end; node++) {
        if (degrees[node] == 0) {
            dangling += values[node];
        } else {
            given[node] = ranks.given(values[node], degrees[node]);
        }
    }
    return dangling;
}

// The sum of what comes along links. Several sums at once, since one addition waits for another.
template <typename Value>
Value sum_of(const Node* begin, const Node* end, const Value* given) {
    Value sum = 0;
    const std::int64_t count = end - begin;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t at = 0; at < count; at++) sum += given[begin[at]];
    return sum;
}

}  // namespace bench
