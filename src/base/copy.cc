#include "base/copy.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace forebay {

#ifdef __SSE2__

namespace {

constexpr std::size_t kStreamFrom = 256 * 1024;
constexpr std::size_t kLine = 64, kPage = 4096, kPages = 4, kBlock = kPages * kPage;

// `to` is aligned to 16 bytes.
void stream_line(std::byte* to, const std::byte* from) noexcept {
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                  d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
}

}   // namespace

void copy_large(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept {
    if (size_bytes < kStreamFrom) {
        std::memcpy(to, from, size_bytes);
        return;
    }
    const std::size_t front = (kLine - reinterpret_cast<std::size_t>(to) % kLine) % kLine;
    std::memcpy(to, from, front);
    to += front;
    from += front;
    size_bytes -= front;
    // Four pages at a time: four streams use more of the memory bandwidth than one.
    for (; size_bytes >= kBlock; size_bytes -= kBlock, to += kBlock, from += kBlock)
        for (std::size_t line = 0; line < kPage; line += kLine)
            for (std::size_t page = 0; page < kBlock; page += kPage) stream_line(to + page + line, from + page + line);
    // The fence orders streaming stores with later ones, so a reader of the record sees its bytes.
    _mm_sfence();
    std::memcpy(to, from, size_bytes);
}

#else

void copy_large(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept {
    std::memcpy(to, from, size_bytes);
}

#endif

}   // namespace forebay
