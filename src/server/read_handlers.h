// Sessions of clients that write nothing: readers of a last commit, followers of commits, and readers through the read
// cache. The session's thread makes all calls. Blocks as the file does; a follower's request until a new commit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/cached_files.h"
#include "server/served_files.h"
#include "server/session_handler.h"
#include "server/transfer.h"

namespace forebay::server {

class SnapshotHandler final : public SessionHandler {
  public:
    SnapshotHandler(std::unique_ptr<ServedSnapshot> snapshot, wire::Connection& connection) noexcept
        : snapshot_(std::move(snapshot)), transfer_(connection) {}

    [[nodiscard]] Result<Next> serve(const wire::Connection::Frame& request) override;
    [[nodiscard]] std::string end(const Status& end) override;

  private:
    const std::unique_ptr<ServedSnapshot> snapshot_;
    Transfer transfer_;
};

class FollowHandler final : public SessionHandler {
  public:
    FollowHandler(std::shared_ptr<Observers> observers, wire::Connection& connection) noexcept
        : observers_(std::move(observers)), writer_(observers_->writers()), connection_(connection) {}

    [[nodiscard]] Result<Next> serve(const wire::Connection::Frame& request) override;

  private:
    const std::shared_ptr<Observers> observers_;
    const std::uint64_t writer_;   // the one that it follows
    wire::Connection& connection_;
};

class CachedHandler final : public SessionHandler {
  public:
    CachedHandler(CachedFiles& files, std::unique_ptr<CachedFiles::Reader> reader,
                  wire::Connection& connection) noexcept
        : files_(files), reader_(std::move(reader)), connection_(connection) {}

    // Answers an OPEN, request `number`: FAILED if the cache cannot read the file; then the client may open another.
    [[nodiscard]] Status open(std::uint64_t number, const wire::Open& request);
    [[nodiscard]] Result<Next> serve(const wire::Connection::Frame& request) override;

  private:
    [[nodiscard]] Status read(const wire::Connection::Frame& request);

    CachedFiles& files_;
    const std::unique_ptr<CachedFiles::Reader> reader_;
    wire::Connection& connection_;
    std::shared_ptr<cache::CachedFile> file_;
};

}   // namespace forebay::server
