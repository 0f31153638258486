// One client's session on a file that it has staged itself, and that this server writes (docs/protocol.md, "Draining").
//
// Nothing is held: a request that is answered is in the file. Thread-safety: one thread's. Blocking: as the file does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "server/served_files.h"
#include "server/write_combiner.h"
#include "wire/connection.h"

namespace forebay::server {

// What the sessions of a file have in common.
struct DrainedFile {
    // `stripe_bytes`: 0, as the file system has it. At most `writes_max` writes are under way.
    DrainedFile(std::shared_ptr<io::Descriptor> opened, const std::string& path, std::uint64_t stripe_bytes,
                std::size_t writes_max);
    const std::shared_ptr<io::Descriptor> descriptor;
    const std::unique_ptr<io::File> file;
    WriteCombiner combiner;
};

class DrainSession {
  public:
    // Errors as ServedFiles::open_to_drain.
    [[nodiscard]] static Result<std::unique_ptr<DrainSession>> open(ServedFiles& files, const wire::Open& request,
                                                                    wire::Connection& connection);
    ~DrainSession();
    DrainSession(const DrainSession&) = delete;
    DrainSession& operator=(const DrainSession&) = delete;

    // As it was opened.
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    // Carries out one request and answers it. False: the session ends. kCorrupt: the request is not allowed.
    [[nodiscard]] Result<bool> serve(wire::Connection& connection, const wire::Connection::Frame& frame);

  private:
    DrainSession(ServedFiles& files, wire::Open request, io::Socket& socket)
        : files_(files), request_(std::move(request)), socket_(socket) {}
    [[nodiscard]] Status write(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Status read(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Status change(const wire::Connection::Frame& frame);

    ServedFiles& files_;
    const wire::Open request_;
    io::Socket& socket_;
    std::shared_ptr<DrainedFile> drained_;
    std::uint64_t size_ = 0;
    // Frames that the next one belongs to.
    std::vector<wire::Payload> gathered_;
    std::size_t gathered_bytes_ = 0;
    std::uint64_t first_request_ = 0;
    wire::Payload buffer_;   // what is read
};

}   // namespace forebay::server
