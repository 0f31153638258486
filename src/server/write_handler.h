// The session of a client that writes a file. The file outlives a client that ends without CLOSE: `end` brings it to
// its last commit. If CLOSE fails, the staged bytes stay in place. The client may read them until it ends, and may make
// no other request. The session's thread makes all calls. Blocks as the calls of the file do; `end` has no bound.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/served_files.h"
#include "server/session_handler.h"
#include "server/transfer.h"

namespace forebay::server {

class WriteHandler final : public SessionHandler {
  public:
    // `writes` becomes false once the server may end without waiting for this client.
    WriteHandler(std::shared_ptr<ServedFile> file, wire::Connection& connection, const Report& report,
                 std::atomic<bool>& writes)
        : file_(std::move(file)), connection_(connection), transfer_(connection), report_(report), writes_(writes) {
        client_.emplace(file_->writers(), connection_);
    }

    [[nodiscard]] Result<Next> serve(const wire::Connection::Frame& request) override;
    [[nodiscard]] std::string end(const Status& end) override;

  private:
    [[nodiscard]] Status change(const wire::Connection::Frame& request);
    [[nodiscard]] Status write(const wire::Write& message);
    [[nodiscard]] Status withholding(Status changed);
    [[nodiscard]] Status control(const wire::Connection::Frame& request);
    [[nodiscard]] Result<Next> close(const wire::Connection::Frame& request);

    void drop_file() noexcept;

    std::shared_ptr<ServedFile> file_;        // null after its close
    std::optional<Writers::Client> client_;   // ends before the file
    wire::Connection& connection_;
    Transfer transfer_;
    const Report& report_;
    std::atomic<bool>& writes_;
    bool close_failed_ = false;
};

}   // namespace forebay::server
