// How a contestant is asked for rounds and how it answers: the same as the crate `protocol`, which defines it.
#pragma once

#include <malloc.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "digest.hpp"

namespace bench {

// `CASE --name value ...`
class Request {
public:
    Request(int count, char** words) {
        if (count < 2) throw std::runtime_error("usage: PROGRAM CASE [--name value]...");
        name = words[1];
        for (int at = 2; at < count; at += 2) {
            const std::string option = words[at];
            if (option.rfind("--", 0) != 0) throw std::runtime_error("expected an option, found " + option);
            if (at + 1 == count) throw std::runtime_error(option + " needs a value");
            options[option.substr(2)] = words[at + 1];
        }
    }

    const std::string& case_name() const { return name; }

    std::optional<std::string> find(const std::string& option) const {
        const auto found = options.find(option);
        if (found == options.end()) return std::nullopt;
        return found->second;
    }

    std::string text(const std::string& option) const {
        const auto found = find(option);
        if (!found) throw std::runtime_error("--" + option + " is missing");
        return *found;
    }

    std::uint64_t number(const std::string& option) const {
        const std::string value = text(option);
        std::size_t read = 0;
        const auto number = std::stoull(value, &read);
        if (read != value.size()) throw std::runtime_error("--" + option + " " + value + " is not a number");
        return number;
    }

private:
    std::string name;
    std::map<std::string, std::string> options;
};

// Keeps memory that was freed for the next round, instead of giving it back to the system and asking for it anew.
inline void keep_memory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

// What a round came to.
struct Answer {
    Digest digest;
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
};

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Asks the kernel to count the peak of memory anew. Where it cannot, the peak is that of all rounds so far.
inline void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// The peak of this process's memory in bytes; 0 where the system does not tell.
inline std::uint64_t peak() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
    }
    return 0;
}

inline void say_ready() { std::cout << "{\"ready\":true}" << std::endl; }

inline void say(const Answer& answer, double seconds, std::uint64_t peak) {
    const std::string memory = peak == 0 ? "null" : std::to_string(peak);
    std::printf("{\"seconds\":%.9f,\"digest\":\"%s\",\"records\":%llu,\"bytes\":%llu,\"peak_rss\":%s}\n", seconds,
                answer.digest.text().c_str(), static_cast<unsigned long long>(answer.records),
                static_cast<unsigned long long>(answer.bytes), memory.c_str());
    std::fflush(stdout);
}

// Whether there is another round: one for each line `go`, or as many as `--rounds` says, for a run by hand.
class Orders {
public:
    explicit Orders(const Request& request) {
        if (request.find("rounds")) by_hand = true, left = request.number("rounds");
    }

    bool another() {
        if (by_hand) return left-- > 0;
        std::string line;
        if (!std::getline(std::cin, line)) return false;
        if (line != "go") throw std::runtime_error("expected \"go\", found \"" + line + "\"");
        return true;
    }

private:
    bool by_hand = false;
    std::uint64_t left = 0;
};

}  // namespace bench
