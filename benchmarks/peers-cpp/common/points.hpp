// K-means: the points, what a round of Lloyd's algorithm does with them, and the answer's digest, as in
// `protocol/src/points.rs`.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol.hpp"

namespace bench {

struct Point {
    double x, y;
};

// The sum of the points that are nearest to a centroid, and how many those are. All three are numbers of one kind, so
// that ranks can add them up as one array.
struct Sum {
    double x = 0, y = 0, count = 0;
};

using Lanes = double __attribute__((vector_size(64)));
using Indices = std::int64_t __attribute__((vector_size(64)));

// Adds each point to its nearest centroid's sum; of several, the first. A lane for each point, and four vectors of them,
// whose instructions do not wait for one another.
inline void add_nearest(const Point* points, std::size_t count, const std::vector<Point>& centroids, Sum* sums) {
    constexpr int LANES = 8, VECTORS = 4, GROUP = LANES * VECTORS;
    const auto add = [&](std::int64_t at, Point point) {
        sums[at].x += point.x;
        sums[at].y += point.y;
        sums[at].count += 1;
    };
    const auto all = static_cast<std::int64_t>(centroids.size());
    std::size_t from = 0;
    for (; from + GROUP <= count; from += GROUP) {
        const Point* group = points + from;
        Lanes x[VECTORS], y[VECTORS], best[VECTORS];
        Indices nearest[VECTORS];
        for (int vector = 0; vector < VECTORS; vector++) {
            for (int lane = 0; lane < LANES; lane++) {
                x[vector][lane] = group[vector * LANES + lane].x;
                y[vector][lane] = group[vector * LANES + lane].y;
            }
            best[vector] = Lanes{} + INFINITY;
            nearest[vector] = Indices{};
        }
        for (std::int64_t at = 0; at < all; at++) {
            const Point centroid = centroids[at];
#pragma GCC unroll 4
            for (int vector = 0; vector < VECTORS; vector++) {
                const Lanes dx = x[vector] - centroid.x, dy = y[vector] - centroid.y;
                const Lanes distance = dx * dx + dy * dy;
                const Indices nearer = distance < best[vector];
                best[vector] = nearer ? distance : best[vector];
                nearest[vector] = nearer ? Indices{} + at : nearest[vector];
            }
        }
        for (int vector = 0; vector < VECTORS; vector++) {
            for (int lane = 0; lane < LANES; lane++) add(nearest[vector][lane], group[vector * LANES + lane]);
        }
    }
    for (; from < count; from++) {
        std::int64_t nearest = 0;
        double best = INFINITY;
        for (std::int64_t at = 0; at < all; at++) {
            const double dx = points[from].x - centroids[at].x, dy = points[from].y - centroids[at].y;
            const double distance = dx * dx + dy * dy;
            if (distance < best) best = distance, nearest = at;
        }
        add(nearest, points[from]);
    }
}

// Moves centroids to the means of their points; one without points stays where it is.
inline void move_centroids(std::vector<Point>& centroids, const Sum* sums) {
    for (std::size_t at = 0; at < centroids.size(); at++) {
        if (sums[at].count > 0) centroids[at] = {sums[at].x / sums[at].count, sums[at].y / sums[at].count};
    }
}

// What a contestant is asked: points of which it reads a part, where centroids begin, and how many rounds.
struct Clustering {
    std::uint64_t all = 0;
    std::vector<Point> points, start;
    std::uint64_t iterations = 0;

    Clustering(const Request& request, std::uint64_t part, std::uint64_t parts) {
        const std::string path = request.text("data");
        std::ifstream file(path, std::ios::binary | std::ios::ate);
        if (!file) throw std::runtime_error("cannot read " + path);
        const auto bytes = static_cast<std::uint64_t>(file.tellg());
        if (bytes % sizeof(Point) != 0) throw std::runtime_error(path + ": not a whole number of points");
        all = bytes / sizeof(Point);
        start.resize(request.number("centroids"));
        if (start.size() > all) throw std::runtime_error("too few points");
        const std::uint64_t from = all * part / parts, to = all * (part + 1) / parts;
        points.resize(to - from);
        const auto read = [&](std::vector<Point>& into, std::uint64_t from) {
            file.seekg(static_cast<std::streamoff>(from * sizeof(Point)));
            file.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size() * sizeof(Point)));
            if (!file) throw std::runtime_error("cannot read " + path);
        };
        read(start, 0);
        read(points, from);
        iterations = request.number("iterations");
    }

    Answer answer(const std::vector<Point>& centroids) const {
        Digest digest;
        for (std::size_t at = 0; at < centroids.size(); at++) {
            digest.add_number(2 * at, std::bit_cast<std::uint64_t>(centroids[at].x));
            digest.add_number(2 * at + 1, std::bit_cast<std::uint64_t>(centroids[at].y));
        }
        return {digest, all * iterations, 16 * all * iterations};
    }
};

}  // namespace bench
