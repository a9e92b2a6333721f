// Values by names.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

// A hash of all bytes of a name.
inline std::uint64_t hash_of(std::string_view name) {
    const auto fold = [](std::uint64_t a, std::uint64_t b) {
        const auto product = static_cast<unsigned __int128>(a) * b;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    };
    constexpr std::uint64_t ODD = 0x9e3779b97f4a7c15u, OTHER = 0xd6e8feb86659fd93u;
    std::uint64_t hash = name.size() * ODD, word = 0;
    std::size_t at = 0;
    for (; at + 8 < name.size(); at += 8) {
        std::memcpy(&word, name.data() + at, 8);
        hash = fold(hash ^ word, OTHER);
    }
    // The last eight, some of them for the second time, if there are so many.
    if (name.size() >= 8) {
        std::memcpy(&word, name.data() + name.size() - 8, 8);
    } else {
        for (word = 0; at < name.size(); at++) word = word << 8 | static_cast<unsigned char>(name[at]);
    }
    return fold(hash ^ word, OTHER);
}

// A table of open addressing that finds values by borrowed names.
template <typename Value>
class Table {
public:
    struct Entry {
        std::uint64_t hash;
        std::string name;
        Value value{};
    };

    // The value of this name; a new one if there is none.
    Value& operator[](std::string_view name) {
        const std::uint64_t hash = hash_of(name);
        std::size_t place = hash & (places.size() - 1);
        for (; places[place] != 0; place = (place + 1) & (places.size() - 1)) {
            Entry& entry = entries[places[place] - 1];
            if (entry.hash == hash && entry.name == name) return entry.value;
        }
        entries.push_back({hash, std::string(name), Value{}});
        places[place] = static_cast<std::uint32_t>(entries.size());
        if (2 * entries.size() > places.size()) grow();
        return entries.back().value;
    }

    auto begin() const { return entries.begin(); }
    auto end() const { return entries.end(); }
    std::size_t size() const { return entries.size(); }

private:
    std::vector<Entry> entries;
    // Where each entry is, plus one; zero where there is none. As many as a power of two.
    std::vector<std::uint32_t> places = std::vector<std::uint32_t>(256);

    void grow() {
        places.assign(2 * places.size(), 0);
        for (std::uint32_t at = 0; at < entries.size(); at++) {
            std::size_t place = entries[at].hash & (places.size() - 1);
            while (places[place] != 0) place = (place + 1) & (places.size() - 1);
            places[place] = at + 1;
        }
    }
};

}  // namespace bench
