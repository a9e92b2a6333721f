// The neighbours of nodes as rows of bits.
#pragma once

#include <bit>

#include "graph.hpp"

namespace bench {

// Of each node, those of its neighbours that are greater than it.
class Later {
public:
    explicit Later(Node nodes) : width((nodes + 63) / 64), words(std::size_t{width} * nodes) {}

    void add(Edge edge) {
        if (edge.from == edge.to) return;
        const Node low = std::min(edge.from, edge.to), high = std::max(edge.from, edge.to);
        words[std::size_t{low} * width + high / 64] |= std::uint64_t{1} << (high % 64);
    }

    // How many triangles have this node as their least.
    std::uint64_t triangles(Node node) const {
        const std::uint64_t* own = row(node);
        std::uint64_t count = 0;
        for (Node at = node / 64; at < width; at++) {
            for (std::uint64_t rest = own[at]; rest != 0; rest &= rest - 1) {
                const std::uint64_t* other = row(at * 64 + static_cast<Node>(std::countr_zero(rest)));
                std::uint64_t both = 0;
                for (Node word = at; word < width; word++) both += std::popcount(own[word] & other[word]);
                count += both;
            }
        }
        return count;
    }

    std::vector<std::uint64_t>& all() { return words; }

private:
    const std::uint64_t* row(Node node) const { return words.data() + std::size_t{node} * width; }

    Node width;
    std::vector<std::uint64_t> words;
};

}  // namespace bench
