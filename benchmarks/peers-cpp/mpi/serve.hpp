// Serves rounds on ranks of MPI: the first speaks with who asks, and the others do as it does.
#pragma once

#include <mpi.h>

#include <chrono>
#include <thread>

#include "../common/protocol.hpp"

namespace bench {

// This process among those that work together.
struct Rank {
    int me = 0, all = 1;

    Rank() {
        MPI_Comm_rank(MPI_COMM_WORLD, &me);
        MPI_Comm_size(MPI_COMM_WORLD, &all);
    }

    bool speaks() const { return me == 0; }
};

// Tells all ranks whether there is another round. Those that wait sleep meanwhile: other contestants have their rounds
// now, and a rank that waits in a collective call would keep a core busy.
inline bool another(const Rank& rank, Orders& orders) {
    int yes = 0;
    if (rank.speaks()) {
        yes = orders.another();
        for (int other = 1; other < rank.all; other++) MPI_Send(&yes, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
        return yes;
    }
    for (int there = 0;;) {
        MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    MPI_Recv(&yes, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return yes;
}

// Does the work once for each order, all ranks together. `work` is timed and returns its result; `answer` makes the
// digest of that, in all ranks, of which one tells it.
template <typename Work, typename Judge>
void serve(const Request& request, const Rank& rank, Work work, Judge answer) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank.speaks()) say_ready();
    for (Orders orders(request); another(rank, orders);) {
        reset_peak();
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = Clock::now();
        const auto result = work();
        MPI_Barrier(MPI_COMM_WORLD);
        const double seconds = seconds_since(start);
        std::uint64_t own = peak(), memory = 0;
        MPI_Reduce(&own, &memory, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        const Answer told = answer(result);
        if (rank.speaks()) say(told, seconds, memory);
    }
}

// The cases.
void kmeans(const Request& request, const Rank& rank);
void connected(const Request& request, const Rank& rank);
void pagerank(const Request& request, const Rank& rank);
void triangles(const Request& request, const Rank& rank);
void closure(const Request& request, const Rank& rank);
void barrier(const Request& request, const Rank& rank);
void collisions(const Request& request, const Rank& rank);

}  // namespace bench
