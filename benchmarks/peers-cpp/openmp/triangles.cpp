// Triangles: for each edge, the later neighbours that both ends have, as rows of bits.

#include <atomic>

#include "../common/bits.hpp"
#include "serve.hpp"

void bench::triangles(const Request& request) {
    const Graph graph(request, 0, 1);
    const auto work = [&] {
        Later later(graph.nodes);
        std::uint64_t* words = later.all().data();
        const std::size_t count = later.all().size();
        // Rows of each thread's own, put together at the end: the rows are small.
#pragma omp parallel
        {
            Later own(graph.nodes);
#pragma omp for schedule(static) nowait
            for (std::size_t at = 0; at < graph.edges.size(); at++) own.add(graph.edges[at]);
            for (std::size_t at = 0; at < count; at++) {
                if (own.all()[at] != 0) std::atomic_ref(words[at]).fetch_or(own.all()[at], std::memory_order_relaxed);
            }
        }
        std::uint64_t triangles = 0;
        // Those of low nodes are dear, others cheap.
#pragma omp parallel for schedule(dynamic, 16) reduction(+ : triangles)
        for (Node node = 0; node < graph.nodes; node++) triangles += later.triangles(node);
        return triangles;
    };
    serve(request, work, [&](std::uint64_t triangles) {
        Digest digest;
        digest.add_number(0, triangles);
        return graph.answer(digest);
    });
}
