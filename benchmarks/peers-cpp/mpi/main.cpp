// The benchmarks on MPI, on as many ranks as cores: `mpirun -n CORES`. Cases: `kmeans`, `connected`, `pagerank`,
// `triangles`, `closure`, `barrier`, `collisions`.

#include "serve.hpp"

int main(int count, char** words) {
    MPI_Init(&count, &words);
    bench::keep_memory();
    try {
        const bench::Rank rank;
        const bench::Request request(count, words);
        const std::string& name = request.case_name();
        if (name == "kmeans") {
            bench::kmeans(request, rank);
        } else if (name == "connected") {
            bench::connected(request, rank);
        } else if (name == "pagerank") {
            bench::pagerank(request, rank);
        } else if (name == "triangles") {
            bench::triangles(request, rank);
        } else if (name == "closure") {
            bench::closure(request, rank);
        } else if (name == "barrier") {
            bench::barrier(request, rank);
        } else if (name == "collisions") {
            bench::collisions(request, rank);
        } else {
            throw std::runtime_error("this program has no case \"" + name + "\"");
        }
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << std::endl;
        // The others may wait for this one.
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
