// The questions about collisions: each thread takes one piece of the file after the other and counts in tables of its own,
// which are added up at the end.

#include <exception>

#include "../common/collisions.hpp"
#include "serve.hpp"

void bench::collisions(const Request& request) {
    constexpr std::uint64_t PIECE = 1 << 20;
    const std::string path = request.text("data");
    const auto count = [&] {
        const File file(path);
        const Columns<8> columns(file, COLLISION_COLUMNS);
        const std::uint64_t pieces = 1 + file.size() / PIECE;
        Counts all;
        // No error may leave what the threads do together.
        std::exception_ptr error;
#pragma omp parallel
        {
            Counter counter(file, columns);
            Counts counts;
#pragma omp for schedule(dynamic) nowait
            for (std::uint64_t piece = 0; piece < pieces; piece++) {
                try {
                    counter.count(piece, pieces, counts);
                } catch (...) {
#pragma omp critical
                    error = std::current_exception();
                }
            }
#pragma omp critical
            all.merge(counts);
        }
        if (error) std::rethrow_exception(error);
        return all;
    };
    const std::uint64_t bytes = File(path).size();
    serve(request, count, [&](const Counts& counts) { return answer(counts, bytes); });
}
