// The transitive closure: all ranks get all edges, and each finds what can be reached from its part of the nodes. The
// pairs stay where they are.

#include "../common/search.hpp"
#include "serve.hpp"

namespace {

using namespace bench;

// The edges of all ranks.
std::vector<Edge> gathered(const Graph& graph, const Rank& rank) {
    std::vector<int> counts(rank.all), places(rank.all);
    for (int part = 0; part < rank.all; part++) {
        // In numbers, of which an edge has two: the same parts as those that were read.
        const auto begin = [&](int part) { return 2 * static_cast<int>(graph.all * part / rank.all); };
        places[part] = begin(part);
        counts[part] = begin(part + 1) - begin(part);
    }
    std::vector<Edge> edges(graph.all);
    MPI_Allgatherv(graph.edges.data(), counts[rank.me], MPI_UINT32_T, edges.data(), counts.data(), places.data(),
                   MPI_UINT32_T, MPI_COMM_WORLD);
    return edges;
}

}  // namespace

void bench::closure(const Request& request, const Rank& rank) {
    const Graph graph(request, rank.me, rank.all);
    const auto work = [&] {
        const Links links(gathered(graph, rank), graph.nodes, 1, as_it_is);
        Search search(links, graph.nodes);
        std::vector<Edge> pairs;
        for (Node node = rank.me; node < graph.nodes; node += rank.all) search.from(node, pairs);
        return pairs;
    };
    serve(request, rank, work, [&](const std::vector<Edge>& pairs) {
        const Digest own = of_pairs(pairs);
        std::uint64_t mine[] = {own.rows, own.sum}, all[] = {0, 0};
        MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        return graph.answer({all[0], all[1]});
    });
}
