// The benchmarks on OpenMP. Cases: `kmeans`, `connected`, `pagerank`, `triangles`, `closure`, `barrier`,
// `collisions`.

#include <omp.h>

#include "serve.hpp"

int main(int count, char** words) try {
    bench::keep_memory();
    const bench::Request request(count, words);
    if (request.find("cores")) omp_set_num_threads(static_cast<int>(request.number("cores")));
    const std::string& name = request.case_name();
    if (name == "kmeans") {
        bench::kmeans(request);
    } else if (name == "connected") {
        bench::connected(request);
    } else if (name == "pagerank") {
        bench::pagerank(request);
    } else if (name == "triangles") {
        bench::triangles(request);
    } else if (name == "closure") {
        bench::closure(request);
    } else if (name == "barrier") {
        bench::barrier(request);
    } else if (name == "collisions") {
        bench::collisions(request);
    } else {
        throw std::runtime_error("this program has no case \"" + name + "\"");
    }
} catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
}
