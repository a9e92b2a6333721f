// The questions about collisions: what is counted, row by row, and the rows of the answers, as in
// `protocol/src/collisions.rs`.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "csv.hpp"
#include "protocol.hpp"
#include "table.hpp"

namespace bench {

// Accidents, and the lethal ones of them.
struct Tally {
    std::uint64_t accidents = 0, lethal = 0;

    void operator+=(Tally other) {
        accidents += other.accidents;
        lethal += other.lethal;
    }
};

// Weeks go by their Mondays, counted from the fifth of January 1970.
constexpr std::chrono::days MONDAY{4};

// The week of a date like `12/31/2020`.
constexpr std::int32_t week_of(std::string_view date) {
    using namespace std::chrono;
    bool good = date.size() == 10 && date[2] == '/' && date[5] == '/';
    const auto number = [&](std::size_t from, std::size_t to) {
        unsigned sum = 0;
        for (std::size_t at = from; at < to; at++) {
            const auto digit = static_cast<unsigned>(date[at] - '0');
            good &= digit < 10;
            sum = 10 * sum + digit;
        }
        return sum;
    };
    if (good) {
        const unsigned m = number(0, 2), d = number(3, 5), y = number(6, 10);
        const year_month_day day(year(static_cast<int>(y)), month(m), std::chrono::day(d));
        if (good && day.ok()) {
            return static_cast<std::int32_t>(floor<weeks>(sys_days(day) - MONDAY).time_since_epoch().count());
        }
    }
    throw std::runtime_error("no date like 12/31/2020: " + std::string(date));
}

static_assert(week_of("07/01/2012") + 1 == week_of("07/02/2012") && week_of("07/02/2012") == week_of("07/08/2012"));

// A week's Monday as `2012-07-02`.
inline std::string monday(std::int32_t week) {
    using namespace std::chrono;
    const year_month_day day(sys_days(weeks(week)) + MONDAY);
    char text[32];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", int(day.year()), unsigned(day.month()), unsigned(day.day()));
    return text;
}

// Whether anybody was killed. Nothing is nobody.
inline bool is_lethal(std::string_view killed) {
    if (killed.empty() || killed == "0") return false;
    std::uint32_t number = 0;
    const char *from = killed.data() + (killed[0] == '+'), *to = killed.data() + killed.size();
    const auto [past, error] = std::from_chars(from, to, number);
    if (error != std::errc() || past != to) throw std::runtime_error("no number of killed: " + std::string(killed));
    return number > 0;
}

// The tallies of one week after the other.
struct Weeks {
    std::int32_t first = 0;
    std::vector<Tally> tallies;

    Tally& operator[](std::int32_t week) {
        if (tallies.empty()) first = week;
        if (week < first) {
            tallies.insert(tallies.begin(), static_cast<std::size_t>(first - week), Tally{});
            first = week;
        }
        const auto at = static_cast<std::size_t>(week - first);
        if (at >= tallies.size()) tallies.resize(at + 1);
        return tallies[at];
    }

    void merge(const Weeks& other) {
        for (std::size_t at = 0; at < other.tallies.size(); at++) {
            (*this)[other.first + static_cast<std::int32_t>(at)] += other.tallies[at];
        }
    }

    // Calls `each` with weeks and their tallies.
    template <typename Each>
    void each(Each each) const {
        for (std::size_t at = 0; at < tallies.size(); at++) each(first + static_cast<std::int32_t>(at), tallies[at]);
    }
};

// The columns that the questions are about: date, borough, killed, and five factors.
constexpr Columns<8>::Names COLLISION_COLUMNS = {
    "CRASH DATE",
    "BOROUGH",
    "NUMBER OF PERSONS KILLED",
    "CONTRIBUTING FACTOR VEHICLE 1",
    "CONTRIBUTING FACTOR VEHICLE 2",
    "CONTRIBUTING FACTOR VEHICLE 3",
    "CONTRIBUTING FACTOR VEHICLE 4",
    "CONTRIBUTING FACTOR VEHICLE 5",
};

// What is counted for the three questions in one pass.
struct Counts {
    std::uint64_t accidents = 0;
    // The lethal ones only.
    Weeks weeks;
    Table<Tally> factors;
    Table<Weeks> boroughs;

    void add(const Columns<8>::Fields& fields) {
        const auto& [date, borough, killed, f0, f1, f2, f3, f4] = fields;
        const std::int32_t week = week_of(date);
        const Tally one{1, is_lethal(killed)};
        accidents += 1;
        if (one.lethal > 0) weeks[week] += one;
        if (!borough.empty()) boroughs[borough][week] += one;
        constexpr std::size_t FIRST = 3;
        for (std::size_t at = FIRST; at < fields.size(); at++) {
            const std::string_view factor = fields[at];
            // Each of an accident once.
            const auto before = fields.begin() + static_cast<std::ptrdiff_t>(at);
            if (!factor.empty() && std::find(fields.begin() + FIRST, before, factor) == before) factors[factor] += one;
        }
    }

    void merge(const Counts& other) {
        accidents += other.accidents;
        weeks.merge(other.weeks);
        for (const auto& entry : other.factors) factors[entry.name] += entry.value;
        for (const auto& entry : other.boroughs) boroughs[entry.name].merge(entry.value);
    }
};

// Counts rows of parts of a file, with buffers for all of them.
class Counter {
public:
    explicit Counter(const File& file, const Columns<8>& columns) : file(file), begin(columns.begin), cutter(columns) {}

    // Counts the rows that begin in this part of so many.
    void count(std::uint64_t part, std::uint64_t parts, Counts& counts) {
        const std::uint64_t rows = file.size() - begin;
        const std::uint64_t from = file.next_line(begin + rows * part / parts);
        const std::uint64_t to = file.next_line(begin + rows * (part + 1) / parts);
        each_block(file, from, to, buffer, [&](std::string_view text) {
            cutter.rows(text, [&](const Columns<8>::Fields& fields) { counts.add(fields); });
        });
    }

private:
    const File& file;
    const std::uint64_t begin;
    Cutter<8> cutter;
    std::vector<char> buffer;
};

inline Answer answer(const Counts& counts, std::uint64_t bytes) {
    Digest digest;
    // What is left of a fraction that was computed in one way or another.
    const auto share = [](std::uint64_t part, std::uint64_t all) {
        return static_cast<std::uint64_t>(std::floor(static_cast<double>(part) / static_cast<double>(all) * 1e9 + 0.5));
    };
    counts.weeks.each([&](std::int32_t week, Tally tally) {
        if (tally.lethal > 0) digest.add("1 " + monday(week), tally.lethal);
    });
    for (const auto& [hash, name, tally] : counts.factors) {
        digest.add("2 " + name, tally.accidents);
        digest.add("2 " + name + " share", share(tally.lethal, tally.accidents));
    }
    for (const auto& [hash, name, weeks] : counts.boroughs) {
        std::uint64_t lethal = 0, some = 0;
        weeks.each([&](std::int32_t, Tally tally) { lethal += tally.lethal, some += tally.accidents > 0; });
        const std::uint64_t mean = share(lethal, some);
        weeks.each([&](std::int32_t week, Tally tally) {
            if (tally.accidents == 0) return;
            const std::string key = "3 " + name + " " + monday(week);
            digest.add(key, tally.accidents);
            digest.add(key + " mean", mean);
        });
    }
    return {digest, counts.accidents, bytes};
}

}  // namespace bench
