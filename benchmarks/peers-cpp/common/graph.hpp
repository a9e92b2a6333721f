// Graphs: how they are read, and what the answers about them are, as in `protocol/src/graphs.rs`.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol.hpp"

namespace bench {

using Node = std::uint32_t;

struct Edge {
    Node from, to;
};

// What a contestant is asked: a graph, of whose edges it reads a part.
struct Graph {
    Node nodes = 0;
    std::uint64_t all = 0;
    std::vector<Edge> edges;

    Graph(const Request& request, std::uint64_t part, std::uint64_t parts) {
        nodes = static_cast<Node>(request.number("nodes"));
        const std::string path = request.text("data");
        std::ifstream file(path, std::ios::binary | std::ios::ate);
        if (!file) throw std::runtime_error("cannot read " + path);
        const auto bytes = static_cast<std::uint64_t>(file.tellg());
        if (bytes % sizeof(Edge) != 0) throw std::runtime_error(path + ": not a whole number of edges");
        all = bytes / sizeof(Edge);
        const std::uint64_t from = all * part / parts, to = all * (part + 1) / parts;
        edges.resize(to - from);
        file.seekg(static_cast<std::streamoff>(from * sizeof(Edge)));
        file.read(reinterpret_cast<char*>(edges.data()), static_cast<std::streamsize>(edges.size() * sizeof(Edge)));
        if (!file) throw std::runtime_error("cannot read " + path);
        for (const Edge edge : edges) {
            if (std::max(edge.from, edge.to) >= nodes) throw std::runtime_error(path + ": an edge to no node");
        }
    }

    Answer answer(Digest digest) const { return {digest, all, all * sizeof(Edge)}; }
};

// What each node is linked with, in one array: those of a node are beside each other.
class Links {
public:
    // `of` answers the node that an edge is put with, and what is put there. On threads of OpenMP, where there are some:
    // each has a part of the edges.
    template <typename Of>
    Links(const std::vector<Edge>& edges, Node nodes, std::size_t parts, Of of) : begins(nodes + 1), ends(edges.size()) {
        std::vector<std::vector<std::uint32_t>> places(parts, std::vector<std::uint32_t>(nodes));
        const auto begin = [&](std::size_t part) { return edges.size() * part / parts; };
#pragma omp parallel for schedule(static)
        for (std::size_t part = 0; part < parts; part++) {
            std::uint32_t* counts = places[part].data();
            for (std::size_t at = begin(part); at < begin(part + 1); at++) counts[of(edges[at]).from]++;
        }
        std::uint32_t next = 0;
        for (Node node = 0; node < nodes; node++) {
            begins[node] = next;
            for (auto& part : places) {
                const std::uint32_t count = part[node];
                part[node] = next;
                next += count;
            }
        }
        begins[nodes] = next;
#pragma omp parallel for schedule(static)
        for (std::size_t part = 0; part < parts; part++) {
            std::uint32_t* place = places[part].data();
            for (std::size_t at = begin(part); at < begin(part + 1); at++) {
                const Edge link = of(edges[at]);
                ends[place[link.from]++] = link.to;
            }
        }
    }

    const Node* begin(Node node) const { return ends.data() + begins[node]; }
    const Node* end(Node node) const { return ends.data() + begins[node + 1]; }
    std::uint32_t count(Node node) const { return begins[node + 1] - begins[node]; }

private:
    std::vector<std::uint32_t> begins;
    std::vector<Node> ends;
};

inline Edge as_it_is(Edge edge) { return edge; }
inline Edge turned(Edge edge) { return {edge.to, edge.from}; }

// Rows of nodes, each with a number.
template <typename Value, typename Number>
Digest by_node(const std::vector<Value>& values, Number number) {
    Digest digest;
    for (std::size_t node = 0; node < values.size(); node++) digest.add_number(node, number(values[node]));
    return digest;
}

// Rows of pairs of nodes.
inline Digest of_pairs(const std::vector<Edge>& pairs) {
    Digest digest;
    for (const Edge pair : pairs) digest.add_number(std::uint64_t{pair.from} << 32 | pair.to, 1);
    return digest;
}

}  // namespace bench
