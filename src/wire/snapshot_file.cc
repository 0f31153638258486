#include "wire/snapshot_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace forebay::wire {

SnapshotFile::SnapshotFile(std::shared_ptr<io::File> file, ClientSession session, const io::Address& server)
    : ForwardingFile(std::move(file)),
      server_(io::format_address(server)),
      size_(session.opened.size),
      process_(::getpid()),
      requests_(std::move(session), !server.path.empty()) {}

// In a forked child the connection belongs to the parent.
SnapshotFile::~SnapshotFile() {
    if (process_ == ::getpid()) requests_.socket().shut_down();
}

Result<std::unique_ptr<SnapshotFile>> SnapshotFile::open(const io::Address& server, std::unique_ptr<io::File>& file,
                                                         std::uint64_t patience_s, const Open::Team& team) {
    auto message = describe(*file, Purpose::kRead, server);
    if (!message) return message.status();
    message.value().team = team;
    auto session = open_session(server, patience_s, message.value());
    if (!session) return session.status();
    return std::unique_ptr<SnapshotFile>(new SnapshotFile(std::move(file), std::move(session).value(), server));
}

Result<std::size_t> SnapshotFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    if (process_ != ::getpid())
        return Status(Code::kUnsupported, name() + ": opened through a staging server before this process was forked; "
                                                   "open it again here");
    const std::uint64_t left = offset < size_ ? size_ - offset : 0;
    const auto whole = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
    const LockGuard lock(mutex_);
    FOREBAY_TRY(failure_);
    for (std::size_t done = 0; done < whole;) {
        const std::size_t count = std::min(whole - done, kDataMax);
        const Status read = requests_.read(offset + done, into.subspan(done, count));
        if (!read) {
            failure_ = Status(Code::kUnavailable, name() + ": staging server " + server_ + ": " + read.message());
            requests_.socket().shut_down();
            return failure_;
        }
        done += count;
    }
    return whole;
}

Status SnapshotFile::refuse() const {
    return Status::from_errno(EBADF, "change " + name() + ", of which a staging server shows the last flush");
}
Status SnapshotFile::write_at(std::uint64_t, io::Bytes) { return refuse(); }
Status SnapshotFile::write_gather_at(std::uint64_t, std::span<const io::Bytes>) { return refuse(); }
Status SnapshotFile::resize(std::uint64_t) { return refuse(); }

}   // namespace forebay::wire
