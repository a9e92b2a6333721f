// Triangles: for each edge, the later neighbours that both ends have, as rows of bits, which all ranks put together of
// their parts of the edges.

#include "../common/bits.hpp"
#include "serve.hpp"

void bench::triangles(const Request& request, const Rank& rank) {
    const Graph graph(request, rank.me, rank.all);
    const auto work = [&] {
        Later later(graph.nodes);
        for (const Edge edge : graph.edges) later.add(edge);
        MPI_Allreduce(MPI_IN_PLACE, later.all().data(), static_cast<int>(later.all().size()), MPI_UINT64_T, MPI_BOR,
                      MPI_COMM_WORLD);
        std::uint64_t own = 0, triangles = 0;
        // Each node of a few in turn, since those of low nodes are dear, others cheap.
        for (Node node = rank.me; node < graph.nodes; node += rank.all) own += later.triangles(node);
        MPI_Allreduce(&own, &triangles, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        return triangles;
    };
    serve(request, rank, work, [&](std::uint64_t triangles) {
        Digest digest;
        digest.add_number(0, triangles);
        return graph.answer(digest);
    });
}
