// The last commit, as of its open, of a file that a client of a staging server is writing, behind the seam of
// io/file.h. Writes fail. After the loss of the server every read fails, because no other server has that commit. One
// connection, closed at destruction. Thread-safety: as io::File; calls take turns. Reads block for at most `patience_s`
// and half a minute. In a forked child every read fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "io/forwarding_file.h"
#include "io/socket.h"
#include "wire/requests.h"

namespace forebay::wire {

class SnapshotFile final : public io::ForwardingFile {
  public:
    // `file` is the file itself; after a failure the caller keeps it. A team reads one commit. kUnsupported: no client
    // writes it. kNotFound: no server answers. kUnavailable: it has no complete commit. Others: unknown.
    [[nodiscard]] static Result<std::unique_ptr<SnapshotFile>> open(const io::Address& server,
                                                                    std::unique_ptr<io::File>& file,
                                                                    std::uint64_t patience_s,
                                                                    const Open::Team& team = {});
    ~SnapshotFile() override;

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Result<std::uint64_t> size() override { return size_; }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;

  private:
    SnapshotFile(std::shared_ptr<io::File> file, ClientSession session, const io::Address& server);
    [[nodiscard]] Status refuse() const;

    const std::string server_;
    const std::uint64_t size_;
    const pid_t process_;
    Mutex mutex_;
    Requests requests_ GUARDED_BY(mutex_);
    Status failure_ GUARDED_BY(mutex_);
};

}   // namespace forebay::wire
