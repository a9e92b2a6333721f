// K-means: threads that stay for all rounds, each with sums of its own, which all add up together.

#include <omp.h>

#include "../common/points.hpp"
#include "serve.hpp"

void bench::kmeans(const Request& request) {
    const Clustering task(request, 0, 1);
    const auto rounds = [&] {
        std::vector<Point> centroids = task.start;
        const std::size_t count = centroids.size();
        std::vector<Sum> all(count);
#pragma omp parallel
        {
            const std::size_t me = omp_get_thread_num(), threads = omp_get_num_threads();
            const std::size_t from = task.points.size() * me / threads, to = task.points.size() * (me + 1) / threads;
            std::vector<Sum> sums(count);
            for (std::uint64_t round = 0; round < task.iterations; round++) {
                std::fill(sums.begin(), sums.end(), Sum{});
                add_nearest(task.points.data() + from, to - from, centroids, sums.data());
#pragma omp critical
                for (std::size_t at = 0; at < count; at++) {
                    all[at].x += sums[at].x;
                    all[at].y += sums[at].y;
                    all[at].count += sums[at].count;
                }
#pragma omp barrier
#pragma omp single
                {
                    move_centroids(centroids, all.data());
                    std::fill(all.begin(), all.end(), Sum{});
                }
            }
        }
        return centroids;
    };
    serve(request, rounds, [&](const std::vector<Point>& centroids) { return task.answer(centroids); });
}
