// Connected components: the least node is handed on along edges until nothing changes. All threads see at once what
// others found.

#include <atomic>

#include "../common/graph.hpp"
#include "serve.hpp"

namespace {

using bench::Node;

// Lowers a label that others may lower as well.
void lower(Node& label, Node to) {
    const std::atomic_ref<Node> shared(label);
    Node now = shared.load(std::memory_order_relaxed);
    while (to < now && !shared.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
    }
}

}  // namespace

void bench::connected(const Request& request) {
    const Graph graph(request, 0, 1);
    const auto components = [&] {
        std::vector<Node> least(graph.nodes);
        for (Node node = 0; node < graph.nodes; node++) least[node] = node;
        for (bool changed = true; changed;) {
            changed = false;
#pragma omp parallel for schedule(static) reduction(|| : changed)
            for (std::size_t at = 0; at < graph.edges.size(); at++) {
                Node &from = least[graph.edges[at].from], &to = least[graph.edges[at].to];
                const Node a = std::atomic_ref(from).load(std::memory_order_relaxed);
                const Node b = std::atomic_ref(to).load(std::memory_order_relaxed);
                if (a != b) {
                    a < b ? lower(to, a) : lower(from, b);
                    changed = true;
                }
            }
        }
        return least;
    };
    serve(request, components, [&](const std::vector<Node>& least) {
        return graph.answer(by_node(least, [](Node node) { return std::uint64_t{node}; }));
    });
}
