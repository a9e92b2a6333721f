// Rounds in which nothing happens: ranks that agree on a number.

#include "serve.hpp"

void bench::barrier(const Request& request, const Rank& rank) {
    const std::uint64_t count = request.number("count");
    const auto rounds = [&] {
        std::uint64_t rounds = 0;
        for (std::uint64_t round = 0; round < count; round++) {
            std::uint64_t own = rank.speaks(), all = 0;
            MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            rounds += all;
        }
        return rounds;
    };
    serve(request, rank, rounds, [&](std::uint64_t rounds) {
        Digest digest;
        digest.add_number(count, rounds);
        return Answer{digest, count, 0};
    });
}
