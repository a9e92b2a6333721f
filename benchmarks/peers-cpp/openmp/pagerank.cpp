// PageRank: each node pulls what comes to it along its links, which are sorted by where they lead.

#include <omp.h>

#include "../common/ranks.hpp"
#include "serve.hpp"

namespace {

using namespace bench;

template <typename Ranks>
void rank(const Request& request) {
    using Value = typename Ranks::Value;
    const Graph graph(request, 0, 1);
    const std::uint64_t rounds = request.number("iterations");
    const Ranks ranks(graph.nodes);
    const auto work = [&] {
        const std::size_t threads = omp_get_max_threads();
        const Links into(graph.edges, graph.nodes, threads, turned);
        std::vector<std::uint32_t> degrees(graph.nodes);
        std::uint32_t* counts = degrees.data();
#pragma omp parallel for schedule(static) reduction(+ : counts[ : graph.nodes])
        for (std::size_t at = 0; at < graph.edges.size(); at++) counts[graph.edges[at].from]++;
        std::vector<Value> values(graph.nodes, ranks.start()), given(graph.nodes);
        Value dangling = 0;
#pragma omp parallel
        for (std::uint64_t round = 0; round < rounds; round++) {
            const std::size_t me = omp_get_thread_num(), all = omp_get_num_threads();
            const Node begin = graph.nodes * me / all, end = graph.nodes * (me + 1) / all;
            const Value mine = give(ranks, values, degrees, given.data(), begin, end);
#pragma omp critical
            dangling += mine;
#pragma omp barrier
            const Value everywhere = dangling;
            // Some nodes have far more links than others.
#pragma omp for schedule(dynamic, 512)
            for (Node node = 0; node < graph.nodes; node++) {
                values[node] = ranks.updated(sum_of(into.begin(node), into.end(node), given.data()), everywhere);
            }
#pragma omp single
            dangling = 0;
        }
        return values;
    };
    serve(request, work, [&](const std::vector<Value>& values) {
        return graph.answer(by_node(values, [&](Value value) { return ranks.number(value); }));
    });
}

}  // namespace

void bench::pagerank(const Request& request) {
    const std::string form = request.text("form");
    if (form == "state") {
        rank<Shares>(request);
    } else if (form == "integer") {
        rank<Surfers>(request);
    } else {
        throw std::runtime_error("there is no form \"" + form + "\": state, integer");
    }
}
