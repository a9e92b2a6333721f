// K-means: each rank has a part of the points, and all add up their sums at the end of each round.

#include "../common/points.hpp"
#include "serve.hpp"

void bench::kmeans(const Request& request, const Rank& rank) {
    const Clustering task(request, rank.me, rank.all);
    const auto rounds = [&] {
        std::vector<Point> centroids = task.start;
        std::vector<Sum> sums(centroids.size());
        for (std::uint64_t round = 0; round < task.iterations; round++) {
            std::fill(sums.begin(), sums.end(), Sum{});
            add_nearest(task.points.data(), task.points.size(), centroids, sums.data());
            MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(3 * sums.size()), MPI_DOUBLE, MPI_SUM,
                          MPI_COMM_WORLD);
            move_centroids(centroids, sums.data());
        }
        return centroids;
    };
    serve(request, rank, rounds, [&](const std::vector<Point>& centroids) { return task.answer(centroids); });
}
