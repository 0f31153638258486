// The file with the bytes of a replica, for reads and changes by one process.
// It holds a descriptor during calls only, unless the process has enough of them (io/spare_descriptors.h). By then its
// name may lead to another replica, even of the same inode number. But the map is void before the file goes. So a
// reader checks the map after it read, and a writer after it opened. Thread-safe; reads take no lock while a descriptor
// is kept. Not for forked children. Blocks on the staging area.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "io/spare_descriptors.h"

namespace forebay::cache {

class ReplicaBytes final : private io::SpareDescriptor {
  public:
    // `file` is the open file of this name in `folder`, which outlives this.
    ReplicaBytes(io::Directory& folder, std::string name, std::unique_ptr<io::File> file);
    ~ReplicaBytes();
    ReplicaBytes(const ReplicaBytes&) = delete;
    ReplicaBytes& operator=(const ReplicaBytes&) = delete;

    [[nodiscard]] const io::Identity& identity() const noexcept { return identity_; }
    // True if no device can lose bytes after a write has returned.
    [[nodiscard]] bool in_memory() const noexcept { return in_memory_; }
    // Readers compare the bytes (cache/compared_read.h).
    [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into);
    // Opens the file for a change. kNotFound: another file has its name.
    [[nodiscard]] Result<std::unique_ptr<io::File>> open() const;

  private:
    void give_back() noexcept override;
    void leave() noexcept;
    void close_kept() noexcept;

    // state_: the number of threads that use kept_, and these bits.
    static constexpr std::uint32_t kKept = std::uint32_t{1} << 31, kGoing = std::uint32_t{1} << 30;

    io::Directory& folder_;
    const std::string name_;
    io::Identity identity_;
    std::uint64_t born_ns_ = 0;
    bool in_memory_ = false;
    std::unique_ptr<io::File> resting_;   // opened for each call
    std::unique_ptr<io::File> kept_;
    std::atomic<std::uint32_t> state_{0}, reads_{0};
};

}   // namespace forebay::cache
