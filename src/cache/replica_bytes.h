// The file with the bytes of a replica, as one process reads and changes it.
//
// It takes no descriptor but for the time of a call, unless the process has enough of them (io/spare_descriptors.h).
// By its name another replica may be found by then, of the same inode number even. The map of a replica is void before
// its file goes. So a reader looks at the map once the bytes are read, and a writer once the file is open; each does
// nothing with them if it is void.
//
// Thread-safety: all calls from any thread; reading takes no lock while a descriptor is kept. In a forked child none
// may be called. Blocks on the staging area.
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
    // `file` is open, and is the one of this name in `folder`, which outlives this.
    ReplicaBytes(io::Directory& folder, std::string name, std::unique_ptr<io::File> file);
    ~ReplicaBytes();
    ReplicaBytes(const ReplicaBytes&) = delete;
    ReplicaBytes& operator=(const ReplicaBytes&) = delete;

    // Nothing is known of it: zeros.
    [[nodiscard]] const io::Identity& identity() const noexcept { return identity_; }
    [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into);
    // For calls that change it. kNotFound: another file has its name.
    [[nodiscard]] Result<std::unique_ptr<io::File>> open() const;

  private:
    void give_back() noexcept override;
    void leave() noexcept;
    void close_kept() noexcept;

    // state_: how many threads use kept_, and these bits.
    static constexpr std::uint32_t kKept = std::uint32_t{1} << 31, kGoing = std::uint32_t{1} << 30;

    io::Directory& folder_;
    const std::string name_;
    io::Identity identity_;
    std::uint64_t born_ns_ = 0;
    std::unique_ptr<io::File> resting_;   // opened for each call
    std::unique_ptr<io::File> kept_;
    std::atomic<std::uint32_t> state_{0}, reads_{0};
};

}   // namespace forebay::cache
