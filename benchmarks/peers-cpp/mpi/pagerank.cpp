// PageRank: all ranks have the values of all nodes; each sums up what comes along its part of the links, sorted by where
// they lead, and all add up their sums.

#include "../common/ranks.hpp"
#include "serve.hpp"

namespace {

using namespace bench;

template <typename Value>
MPI_Datatype type_of();
template <>
MPI_Datatype type_of<double>() { return MPI_DOUBLE; }
template <>
MPI_Datatype type_of<std::uint64_t>() { return MPI_UINT64_T; }

template <typename Ranks>
void ranked(const Request& request, const Rank& rank) {
    using Value = typename Ranks::Value;
    const Graph graph(request, rank.me, rank.all);
    const std::uint64_t rounds = request.number("iterations");
    const Ranks ranks(graph.nodes);
    const auto work = [&] {
        const int nodes = static_cast<int>(graph.nodes);
        const Links into(graph.edges, graph.nodes, 1, turned);
        std::vector<std::uint32_t> degrees(graph.nodes);
        for (const Edge edge : graph.edges) degrees[edge.from]++;
        MPI_Allreduce(MPI_IN_PLACE, degrees.data(), nodes, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
        std::vector<Value> values(graph.nodes, ranks.start()), given(graph.nodes);
        for (std::uint64_t round = 0; round < rounds; round++) {
            const Value dangling = give(ranks, values, degrees, given.data(), 0, graph.nodes);
            for (Node node = 0; node < graph.nodes; node++) {
                values[node] = sum_of(into.begin(node), into.end(node), given.data());
            }
            MPI_Allreduce(MPI_IN_PLACE, values.data(), nodes, type_of<Value>(), MPI_SUM, MPI_COMM_WORLD);
            for (Value& value : values) value = ranks.updated(value, dangling);
        }
        return values;
    };
    serve(request, rank, work, [&](const std::vector<Value>& values) {
        return graph.answer(by_node(values, [&](Value value) { return ranks.number(value); }));
    });
}

}  // namespace

void bench::pagerank(const Request& request, const Rank& rank) {
    const std::string form = request.text("form");
    if (form == "state") {
        ranked<Shares>(request, rank);
    } else if (form == "integer") {
        ranked<Surfers>(request, rank);
    } else {
        throw std::runtime_error("there is no form \"" + form + "\": state, integer");
    }
}
