// Rows of a CSV file by parts of it: fields may be in quotes and hold delimiters and doubled quotes, lines end in one way
// or the other, empty ones are no rows. No field may hold a line break, or nobody could tell where a part's rows begin.
// What is no such row stops the program.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

// A file to read anywhere from, by several threads at once.
class File {
public:
    explicit File(const std::string& name) : path(name), handle(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        struct stat facts;
        if (handle < 0 || fstat(handle, &facts) != 0) throw std::runtime_error("cannot read " + path);
        length = static_cast<std::uint64_t>(facts.st_size);
    }
    ~File() { close(handle); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    std::uint64_t size() const { return length; }

    void read(std::uint64_t from, char* into, std::size_t count) const {
        while (count > 0) {
            const auto got = pread(handle, into, count, static_cast<off_t>(from));
            if (got <= 0) throw std::runtime_error("cannot read " + path);
            from += static_cast<std::uint64_t>(got), into += got, count -= static_cast<std::size_t>(got);
        }
    }

    // Where the first line begins of those that begin here or later.
    std::uint64_t next_line(std::uint64_t at) const {
        if (at == 0) return 0;
        char piece[1024];
        for (std::uint64_t from = at - 1; from < length; from += sizeof piece) {
            const auto count = std::min<std::uint64_t>(sizeof piece, length - from);
            read(from, piece, count);
            const auto* found = static_cast<const char*>(std::memchr(piece, '\n', count));
            if (found != nullptr) return from + static_cast<std::uint64_t>(found - piece) + 1;
        }
        return length;
    }

private:
    std::string path;
    int handle;
    std::uint64_t length = 0;
};

// What may be read behind a block.
constexpr std::size_t SPARE = 64;

// Lines between two places where lines begin, block by block: those are whole lines, each with its line feed, and have
// room behind them.
template <typename Each>
void each_block(const File& file, std::uint64_t from, std::uint64_t to, std::vector<char>& buffer, Each each) {
    constexpr std::size_t BLOCK = 256 << 10, LONGEST = 64 << 20;
    std::size_t kept = 0;
    while (from < to) {
        if (kept > LONGEST) throw std::runtime_error("a row of more than 64 MiB");
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(BLOCK, to - from));
        if (buffer.size() < kept + count + 1 + SPARE) buffer.resize(kept + BLOCK + 1 + SPARE);
        char* const text = buffer.data();
        file.read(from, text + kept, count);
        from += count;
        std::size_t length = kept + count;
        // The file's last line need not have one.
        if (from == to && text[length - 1] != '\n') text[length++] = '\n';
        const auto* last = static_cast<const char*>(memrchr(text, '\n', length));
        const std::size_t whole = last == nullptr ? 0 : static_cast<std::size_t>(last - text) + 1;
        if (whole > 0) each(std::string_view(text, whole));
        kept = length - whole;
        std::memmove(text, text + whole, kept);
    }
}

// Whether this is UTF-8.
inline bool is_text(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    for (std::size_t at = 0; at < text.size();) {
        if (at + 64 <= text.size()) {
            std::uint64_t words[8], any = 0;
            std::memcpy(words, text.data() + at, sizeof words);
            for (const std::uint64_t word : words) any |= word;
            if ((any & 0x8080808080808080u) == 0) {
                at += 64;
                continue;
            }
        }
        const unsigned first = byte(at);
        if (first < 0x80) {
            at += 1;
            continue;
        }
        const std::size_t more = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        if (more == 0 || at + more >= text.size()) return false;
        for (std::size_t of = 1; of <= more; of++) {
            if ((byte(at + of) & 0xc0) != 0x80) return false;
        }
        const unsigned second = byte(at + 1);
        // Longer than needed, halves of pairs, and beyond the last character.
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
            (first == 0xf4 && second > 0x8f)) {
            return false;
        }
        at += 1 + more;
    }
    return true;
}

// Where among 64 bytes the ones are that rows are cut by: a bit for each.
struct Marks {
    std::uint64_t commas = 0, quotes = 0, feeds = 0;

    explicit Marks(const char* text) {
#if defined(__AVX512BW__)
        const __m512i bytes = _mm512_loadu_si512(text);
        const auto are = [&](char byte) { return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte)); };
        commas = are(','), quotes = are('"'), feeds = are('\n');
#elif defined(__AVX2__)
        const auto* halves = reinterpret_cast<const __m256i*>(text);
        const __m256i low = _mm256_loadu_si256(halves), high = _mm256_loadu_si256(halves + 1);
        const auto are = [&](char byte) {
            const auto bits = [&](__m256i half) {
                return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte))));
            };
            return bits(low) | std::uint64_t{bits(high)} << 32;
        };
        commas = are(','), quotes = are('"'), feeds = are('\n');
#else
        for (int at = 0; at < 64; at++) {
            commas |= std::uint64_t{text[at] == ','} << at;
            quotes |= std::uint64_t{text[at] == '"'} << at;
            feeds |= std::uint64_t{text[at] == '\n'} << at;
        }
#endif
    }
};

// Each bit the parity of those up to it.
inline std::uint64_t parities(std::uint64_t bits) {
#ifdef __PCLMUL__
    const __m128i ones = _mm_set1_epi8(-1);
    const __m128i product = _mm_clmulepi64_si128(_mm_set_epi64x(0, static_cast<long long>(bits)), ones, 0);
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
#else
    for (int distance = 1; distance < 64; distance *= 2) bits ^= bits << distance;
    return bits;
#endif
}

// Takes a line apart, byte by byte; answers whether its quotes are closed.
inline bool take_apart(std::string_view line, std::vector<std::string>& fields) {
    fields.assign(1, "");
    bool quoted = false, at_start = true;
    for (std::size_t at = 0; at < line.size(); at++) {
        const char byte = line[at];
        const bool started = std::exchange(at_start, false);
        if (quoted) {
            if (byte != '"') {
                fields.back() += byte;
            } else if (at + 1 < line.size() && line[at + 1] == '"') {
                fields.back() += line[at++];
            } else {
                quoted = false;
            }
        } else if (byte == ',') {
            fields.emplace_back();
            at_start = true;
        } else if (byte == '"' && started) {
            quoted = true;
        } else {
            fields.back() += byte;
        }
    }
    return !quoted;
}

// Some columns of rows.
template <std::size_t N>
class Columns {
public:
    using Names = std::array<const char*, N>;
    using Fields = std::array<std::string_view, N>;

    // Finds columns by their names in a file's first line that is not empty.
    Columns(const File& file, const Names& names) {
        std::uint64_t to = 0;
        std::string line;
        do {
            const std::uint64_t from = to;
            to = file.next_line(from + 1);
            line.resize(to - from);
            file.read(from, line.data(), line.size());
            if (from == 0 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
            while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
        } while (line.empty() && to < file.size());
        begin = to;
        // Then there are no rows either.
        if (line.empty()) return;
        std::vector<std::string> header;
        if (!take_apart(line, header)) throw std::runtime_error("the header has a line break within quotes");
        all = header.size();
        for (std::size_t column = 0; column < N; column++) {
            const auto found = std::find(header.begin(), header.end(), names[column]);
            if (found == header.end()) throw std::runtime_error(std::string("no column ") + names[column]);
            places[column] = static_cast<std::size_t>(found - header.begin());
        }
    }

    // Where the rows begin in the file.
    std::uint64_t begin = 0;
    // How many columns the file has, and where these are.
    std::size_t all = 0;
    std::array<std::size_t, N> places{};
};

// Cuts rows into fields: first finds all places of a block where fields end, 64 bytes at a time, then goes from row to row.
template <std::size_t N>
class Cutter {
public:
    explicit Cutter(const Columns<N>& columns) : columns(columns) {}

    // Calls `each` with the fields of each row in a block of `each_block`.
    template <typename Each>
    void rows(std::string_view text, Each each) {
        if (!is_text(text)) throw std::runtime_error("the file is not UTF-8");
        for (std::size_t from = 0; from < text.size();) {
            const std::size_t to = find_ends(text, from);
            std::size_t first = 1;
            for (const std::uint32_t past : lines) {
                row(text, first, past, each);
                first = past;
            }
            from = to;
            if (to < text.size()) from += odd_row(text.substr(to, text.find('\n', to) - to), each) + 1;
        }
    }

private:
    const Columns<N> columns;
    // Where each field ends, the first being where the field before ended; and for each line the first of its followers'.
    std::vector<std::uint32_t> ends, lines;
    std::vector<std::string> apart;

    // Fills in `ends` and `lines` up to the first row in which quotes are anything else than around a field without them;
    // answers where that begins.
    std::size_t find_ends(std::string_view text, std::size_t from) {
        if (ends.size() < text.size() + SPARE) ends.resize(text.size() + SPARE);
        lines.clear();
        ends[0] = static_cast<std::uint32_t>(from) - 1;
        std::uint32_t* next = ends.data() + 1;
        // All ones where the bytes before have opened quotes.
        std::uint64_t within = 0;
        // One where the byte before ends a field, or is a quote that closes.
        std::uint64_t ended = 1, closed = 0;
        for (std::size_t at = from; at < text.size(); at += 64) {
            Marks marks(text.data() + at);
            if (text.size() - at < 64) {
                const std::uint64_t valid = (std::uint64_t{1} << (text.size() - at)) - 1;
                marks.commas &= valid, marks.quotes &= valid, marks.feeds &= valid;
            }
            const std::uint64_t inside = parities(marks.quotes) ^ within;
            const std::uint64_t opening = marks.quotes & inside, closing = marks.quotes & ~inside;
            std::uint64_t fields = (marks.commas | marks.feeds) & ~inside;
            const std::uint64_t odd = (opening & ~(fields << 1 | ended)) | ((closing << 1 | closed) & ~fields) |
                                      (marks.feeds & inside);
            if (odd != 0) fields &= (odd & -odd) - 1;
            for (std::uint64_t feeds = marks.feeds & fields; feeds != 0; feeds &= feeds - 1) {
                const int before = std::popcount(fields & (feeds ^ (feeds - 1)));
                lines.push_back(static_cast<std::uint32_t>(next - ends.data() + before));
            }
            next = put(next, fields, static_cast<std::uint32_t>(at));
            if (odd != 0) return lines.empty() ? from : ends[lines.back() - 1] + 1;
            within = -(inside >> 63), ended = fields >> 63, closed = closing >> 63;
        }
        return text.size();
    }

    // Writes down the places of bits. Eight at a time, whether there are so many or not: that spares branches which
    // nobody can foresee.
    static std::uint32_t* put(std::uint32_t* into, std::uint64_t bits, std::uint32_t from) {
        std::uint32_t* const past = into + std::popcount(bits);
        do {
            for (int of = 0; of < 8; of++) {
                into[of] = from + static_cast<std::uint32_t>(std::countr_zero(bits));
                bits &= bits - 1;
            }
            into += 8;
        } while (bits != 0);
        return past;
    }

    template <typename Each>
    void row(std::string_view text, std::size_t first, std::size_t past, Each& each) {
        const std::uint32_t* const end = ends.data() + first;
        if (past - first != columns.all) {
            const std::string_view line = text.substr(end[-1] + 1, ends[past - 1] - end[-1] - 1);
            if (!line.empty() && line != "\r") refuse(line, past - first);
            return;
        }
        Fields fields;
        for (std::size_t column = 0; column < N; column++) {
            const std::size_t place = columns.places[column];
            // The first column's wraps around to zero in the first row.
            const std::uint32_t from = end[static_cast<std::ptrdiff_t>(place) - 1] + 1;
            std::string_view field(text.data() + from, end[place] - from);
            if (place + 1 == columns.all && field.ends_with('\r')) field.remove_suffix(1);
            // One in front has one behind, or the row would be odd.
            if (field.starts_with('"')) field = field.substr(1, field.size() - 2);
            fields[column] = field;
        }
        each(fields);
    }

    // Answers how long the row is.
    template <typename Each>
    std::size_t odd_row(std::string_view line, Each& each) {
        const std::size_t length = line.size();
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (!take_apart(line, apart)) throw std::runtime_error("a quote is not closed: " + std::string(line));
        if (apart.size() != columns.all) refuse(line, apart.size());
        Fields fields;
        for (std::size_t column = 0; column < N; column++) fields[column] = apart[columns.places[column]];
        each(fields);
        return length;
    }

    [[noreturn]] void refuse(std::string_view line, std::size_t fields) const {
        const std::string counts = std::to_string(fields) + " fields, not " + std::to_string(columns.all);
        throw std::runtime_error(counts + ": " + std::string(line));
    }

    using Fields = typename Columns<N>::Fields;
};

}  // namespace bench
