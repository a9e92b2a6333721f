// Connected components: each rank hands on the least node along its part of the edges, and all agree on the least that
// any has found, until nothing changes.

#include "../common/graph.hpp"
#include "serve.hpp"

void bench::connected(const Request& request, const Rank& rank) {
    const Graph graph(request, rank.me, rank.all);
    const auto components = [&] {
        std::vector<Node> least(graph.nodes), before;
        for (Node node = 0; node < graph.nodes; node++) least[node] = node;
        do {
            before = least;
            for (const Edge edge : graph.edges) {
                Node &from = least[edge.from], &to = least[edge.to];
                // Most of them agree, and then nothing need be written.
                if (from != to) from = to = std::min(from, to);
            }
            MPI_Allreduce(MPI_IN_PLACE, least.data(), static_cast<int>(graph.nodes), MPI_UINT32_T, MPI_MIN,
                          MPI_COMM_WORLD);
            // All have the same now, and so come to the same here.
        } while (least != before);
        return least;
    };
    serve(request, rank, components, [&](const std::vector<Node>& least) {
        return graph.answer(by_node(least, [](Node node) { return std::uint64_t{node}; }));
    });
}
