// The transitive closure: from each node, everything that can be reached, by a search of its own.

#include <omp.h>

#include "../common/search.hpp"
#include "serve.hpp"

void bench::closure(const Request& request) {
    const Graph graph(request, 0, 1);
    const auto work = [&] {
        const Links links(graph.edges, graph.nodes, omp_get_max_threads(), as_it_is);
        std::vector<std::vector<Edge>> parts(omp_get_max_threads());
#pragma omp parallel
        {
            Search search(links, graph.nodes);
            std::vector<Edge>& pairs = parts[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 16)
            for (Node node = 0; node < graph.nodes; node++) search.from(node, pairs);
        }
        return parts;
    };
    serve(request, work, [&](const std::vector<std::vector<Edge>>& parts) {
        Digest digest;
        for (const auto& pairs : parts) digest.merge(of_pairs(pairs));
        return graph.answer(digest);
    });
}
