// The benchmarks on OpenMP. Cases: `kmeans`, `barrier`.

#include <omp.h>

#include "serve.hpp"

int main(int count, char** words) try {
    const bench::Request request(count, words);
    if (request.find("cores")) omp_set_num_threads(static_cast<int>(request.number("cores")));
    const std::string& name = request.case_name();
    if (name == "kmeans") {
        bench::kmeans(request);
    } else if (name == "barrier") {
        bench::barrier(request);
    } else {
        throw std::runtime_error("this program has no case \"" + name + "\"");
    }
} catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
}
