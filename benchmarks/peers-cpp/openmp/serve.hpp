// Serves rounds on threads of OpenMP.
#pragma once

#include "../common/protocol.hpp"

namespace bench {

// Does the work once for each order. `work` is timed and returns its result; `answer` makes the digest of that.
template <typename Work, typename Judge>
void serve(const Request& request, Work work, Judge answer) {
    say_ready();
    for (Orders orders(request); orders.another();) {
        reset_peak();
        const auto start = Clock::now();
        const auto result = work();
        const double seconds = seconds_since(start);
        const std::uint64_t memory = peak();
        say(answer(result), seconds, memory);
    }
}

// The cases.
void kmeans(const Request& request);
void connected(const Request& request);
void pagerank(const Request& request);
void triangles(const Request& request);
void closure(const Request& request);
void barrier(const Request& request);
void collisions(const Request& request);

}  // namespace bench
