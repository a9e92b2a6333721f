// Rounds in which nothing happens: threads that meet at a barrier.

#include "serve.hpp"

void bench::barrier(const Request& request) {
    const std::uint64_t count = request.number("count");
    const auto rounds = [&] {
        std::uint64_t rounds = 0;
#pragma omp parallel
        for (std::uint64_t round = 0; round < count; round++) {
            // Its end is the barrier.
#pragma omp single
            rounds += 1;
        }
        return rounds;
    };
    serve(request, rounds, [&](std::uint64_t rounds) {
        Digest digest;
        digest.add_number(count, rounds);
        return Answer{digest, count, 0};
    });
}
