#include "io/posix_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "base/background_thread.h"
#include "io/guarded_access.h"

namespace forebay::io {

namespace {

class PosixMapping final : public Mapping {
  public:
    explicit PosixMapping(MutableBytes bytes) noexcept : Mapping(bytes) {}
    ~PosixMapping() override { ::munmap(bytes().data(), bytes().size()); }

    void touch(MutableBytes part) noexcept override {
#ifdef MADV_POPULATE_WRITE
        const SignalsBlocked blocked;   // a signal would interrupt it
        if (::madvise(part.data(), part.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
        // Before Linux 5.14 the first store touches a page.
    }
    bool present(Bytes part) noexcept override {
        if (part.empty()) return true;
        const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
                          before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
        const MutableBytes pages(const_cast<std::byte*>(part.data()) - before, part.size() + before);
        if (all_in_memory(pages, page)) return true;
#ifdef MADV_POPULATE_READ
        int asked;
        do asked = ::madvise(pages.data(), pages.size(), MADV_POPULATE_READ);
        while (asked != 0 && errno == EINTR);
        if (asked == 0) return true;
#endif
        return find_unreadable(part, part.data()) == nullptr;
    }

  private:
    // Asks the page cache, at a fifth of the cost of loading the pages into the process's tables.
    static bool all_in_memory(MutableBytes pages, std::size_t page) noexcept {
        std::array<unsigned char, 512> in_memory;
        for (; !pages.empty(); pages = pages.subspan(std::min(pages.size(), in_memory.size() * page))) {
            const std::size_t bytes = std::min(pages.size(), in_memory.size() * page),
                              count = (bytes + page - 1) / page;
            if (::mincore(pages.data(), bytes, in_memory.data()) != 0) return false;
            if (!std::all_of(in_memory.begin(), in_memory.begin() + static_cast<std::ptrdiff_t>(count),
                             [](unsigned char flags) { return (flags & 1) != 0; }))
                return false;
        }
        return true;
    }
};

}   // namespace

std::unique_ptr<Mapping> own_mapping(MutableBytes mapped) { return std::make_unique<PosixMapping>(mapped); }

}   // namespace forebay::io
