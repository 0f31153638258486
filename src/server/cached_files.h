// The files that a staging server reads through its node's read cache, for programs of other nodes (docs/protocol.md,
// "Peers of the read cache"). Bytes in the replica come from there, including those that programs of this node have
// stored. Others are read from the file, and stored. All sessions that read one file share one CachedFile. A file
// without a session closes when any session ends, or when kIdleMax other files were used since. The replica of an open
// file is not evicted, and its space is not freed. The server reads a file only if the client has the same version
// open. Thread-safety: all calls from any thread. Blocks as reads of the file and its replica do.
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

    // Uses the options `nls` (the staging directories) and `read_cache…`.
    explicit CachedFiles(LoadedOptions options);
    ~CachedFiles();
    CachedFiles(const CachedFiles&) = delete;
    CachedFiles& operator=(const CachedFiles&) = delete;

    // A session that reads files. It ends before this object.
    class Reader {
      public:
        explicit Reader(CachedFiles& files) noexcept : files_(files) {}
        ~Reader() { files_.leave(); }
        Reader(const Reader&) = delete;
        Reader& operator=(const Reader&) = delete;

      private:
        CachedFiles& files_;
    };
    // Returns null if there are kReadersMax readers, or no memory.
    [[nodiscard]] std::unique_ptr<Reader> admit();

    // `from_afar`: the client's device numbers are not this machine's. kUnsupported: the server finds no such file
    // there, or does not read it through its cache. kUnavailable: it finds another version of the file.
    [[nodiscard]] Result<std::shared_ptr<cache::CachedFile>> open(const wire::Open& request, bool from_afar);
    // Fills `into` with a range of the file. Returns kUnavailable if the file has another version by now.
    [[nodiscard]] static Status read(cache::CachedFile& file, std::uint64_t offset, io::MutableBytes into);

    // Lends a buffer, which may have any size and content, until `give_back`. Only answers in flight need one.
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
    std::list<std::shared_ptr<cache::CachedFile>> open_;   // all with a replica; the newest open comes first
    std::array<wire::Payload, kBuffersKept> buffers_;      // the first `buffers_kept_` are valid
    std::size_t buffers_kept_ = 0;
};

}   // namespace forebay::server
