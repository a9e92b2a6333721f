// The questions about collisions: each rank counts the rows of its part of the file, and one of them adds up what all sent.

#include "../common/collisions.hpp"
#include "serve.hpp"

namespace {

using namespace bench;

// What is sent: numbers and names, one behind the other.
class Parcel {
public:
    std::vector<char> bytes;

    template <typename Value>
    void put(const Value* values, std::size_t count) {
        const std::size_t at = bytes.size();
        bytes.resize(at + count * sizeof(Value));
        if (count > 0) std::memcpy(bytes.data() + at, values, count * sizeof(Value));
    }
    template <typename Value>
    void put(const Value& value) {
        put(&value, 1);
    }
    void put(const std::string& name) {
        put(name.size());
        put(name.data(), name.size());
    }
    void put(const Weeks& weeks) {
        put(weeks.first);
        put(weeks.tallies.size());
        put(weeks.tallies.data(), weeks.tallies.size());
    }
    template <typename Value>
    void put(const Table<Value>& table) {
        put(table.size());
        for (const auto& entry : table) put(entry.name), put(entry.value);
    }
};

// Takes out what a parcel holds, in the order in which it was put there.
class Unpacking {
public:
    explicit Unpacking(const char* from) : from(from) {}

    template <typename Value>
    void take(Value* values, std::size_t count) {
        if (count > 0) std::memcpy(values, from, count * sizeof(Value));
        from += count * sizeof(Value);
    }
    template <typename Value>
    void take(Value& value) {
        take(&value, 1);
    }
    void take(std::string& name) {
        name.resize(size());
        take(name.data(), name.size());
    }
    void take(Weeks& weeks) {
        take(weeks.first);
        weeks.tallies.resize(size());
        take(weeks.tallies.data(), weeks.tallies.size());
    }
    template <typename Value>
    void take(Table<Value>& table) {
        std::string name;
        for (std::size_t left = size(); left > 0; left--) take(name), take(table[name]);
    }

private:
    const char* from;

    std::size_t size() {
        std::size_t size = 0;
        take(size);
        return size;
    }
};

// Adds up the counts of all ranks; the first has the sum.
void add_up(Counts& counts, const Rank& rank) {
    Parcel parcel;
    if (!rank.speaks()) {
        parcel.put(counts.accidents);
        parcel.put(counts.weeks);
        parcel.put(counts.factors);
        parcel.put(counts.boroughs);
    }
    const int own = static_cast<int>(parcel.bytes.size());
    std::vector<int> sizes(rank.all), places(rank.all);
    MPI_Gather(&own, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    int total = 0;
    for (int other = 0; other < rank.all; other++) places[other] = total, total += sizes[other];
    std::vector<char> all(total);
    MPI_Gatherv(parcel.bytes.data(), own, MPI_CHAR, all.data(), sizes.data(), places.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (!rank.speaks()) return;
    for (int other = 1; other < rank.all; other++) {
        Unpacking unpacking(all.data() + places[other]);
        Counts others;
        unpacking.take(others.accidents);
        unpacking.take(others.weeks);
        unpacking.take(others.factors);
        unpacking.take(others.boroughs);
        counts.merge(others);
    }
}

}  // namespace

void bench::collisions(const Request& request, const Rank& rank) {
    const std::string path = request.text("data");
    const auto count = [&] {
        const File file(path);
        Counter counter(file, Columns<8>(file, COLLISION_COLUMNS));
        Counts counts;
        counter.count(rank.me, rank.all, counts);
        add_up(counts, rank);
        return counts;
    };
    const std::uint64_t bytes = File(path).size();
    serve(request, rank, count, [&](const Counts& counts) { return answer(counts, bytes); });
}
