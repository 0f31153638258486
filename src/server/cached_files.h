// The files that a staging server reads through its node's read cache, for programs of other nodes (docs/protocol.md,
// "Peers of the read cache").
//
// What is in the replica comes from there, also what programs of this node have stored. The rest is read from the file,
// and stored. All sessions that read one file read one CachedFile. One that no session reads stays open until the next
// session ends, kIdleMax at most: while it is open its replica is not evicted, and its space not freed. A file is read
// only in the version that the client has open.
// Thread-safety: all calls from any thread. Blocking: as reading the file and its replica does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/options.h"
#include "base/status.h"
#include "cache/read_cache.h"
#include "wire/frame.h"

namespace forebay::server {

class CachedFiles {
  public:
    static constexpr std::size_t kIdleMax = 64, kReadersMax = 1024;

    // Its options `nls` and `read_cache…` count.
    explicit CachedFiles(LoadedOptions options);
    ~CachedFiles();
    CachedFiles(const CachedFiles&) = delete;
    CachedFiles& operator=(const CachedFiles&) = delete;

    // A session that reads files; it ends before this does.
    class Reader {
      public:
        explicit Reader(CachedFiles& files) noexcept : files_(files) {}
        ~Reader() { files_.leave(); }
        Reader(const Reader&) = delete;
        Reader& operator=(const Reader&) = delete;

      private:
        CachedFiles& files_;
    };
    // Null: there are kReadersMax, or no memory.
    [[nodiscard]] std::unique_ptr<Reader> admit();

    // `from_afar`: the client's device numbers are not this machine's. kUnsupported: the server finds another file
    // under that name, or none, or does not read it through its cache. kUnavailable: it finds another version of the
    // file.
    [[nodiscard]] Result<std::shared_ptr<cache::CachedFile>> open(const wire::Open& request, bool from_afar);
    // Fills `into`, which lies in the file. kUnavailable: it is another version by now.
    [[nodiscard]] static Status read(cache::CachedFile& file, std::uint64_t offset, io::MutableBytes into);

    // Memory for an answer, of any size and content, which goes back with `give_back`. So there is as much of it as
    // there are answers under way, and kBuffersKept, and not as much as there are sessions.
    [[nodiscard]] wire::Payload take_buffer();
    void give_back(wire::Payload&& buffer) noexcept;

    [[nodiscard]] cache::CacheTotals totals();

  private:
    static constexpr std::size_t kBuffersKept = 8;
    void leave() noexcept;
    [[nodiscard]] std::shared_ptr<cache::CachedFile> find(const cache::Version& version);
    void keep(const std::shared_ptr<cache::CachedFile>& file);
    void close(std::list<std::shared_ptr<cache::CachedFile>>&& files) noexcept;

    struct Cache;
    std::unique_ptr<Cache> cache_;
    std::mutex mutex_;
    std::size_t readers_ = 0;
    std::list<std::shared_ptr<cache::CachedFile>> open_;   // the one that was opened last first
    std::array<wire::Payload, kBuffersKept> buffers_;      // the first so many
    std::size_t buffers_kept_ = 0;
};

}   // namespace forebay::server
