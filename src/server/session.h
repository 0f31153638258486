// One client's session: its requests, in their order, on one file that it writes, reads or follows, or on files that
// it reads through this node's cache (docs/protocol.md).
//
// Thread-safety: `run` is one thread's. Blocking: until the session has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/cached_files.h"
#include "server/served_files.h"
#include "wire/connection.h"

namespace forebay::server {

// For the server's operator; from any thread.
using Report = std::function<void(const std::string& line)>;

class Session {
  public:
    // `files`: null: the server stages none. `key`: the key shared with clients on other machines; null: such clients
    // are refused. `writes`: set before it opens a file to write. `cached`: null: the server has no read cache.
    Session(ServedFiles* files, CachedFiles* cached, std::uint64_t epoch, const Report& report,
            const wire::SealKey* key, std::atomic<bool>& writes) noexcept
        : files_(files), cached_files_(cached), epoch_(epoch), report_(report), key_(key), writes_(writes) {}

    // Until the client closes its file, or is gone: then its file is brought to its last commit. If the close has
    // failed the client reads what is staged, until it is gone.
    void run(wire::Connection& connection);

  private:
    [[nodiscard]] Status begin(wire::Connection& connection);
    [[nodiscard]] Status prove(wire::Connection& connection);
    [[nodiscard]] Status open(wire::Connection& connection, const wire::Open& request);
    // Carries out one request and answers it. False: the session ends. kCorrupt: the request is not allowed.
    [[nodiscard]] Result<bool> serve(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Status take_exposed(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] io::MutableBytes exposed() const noexcept;
    [[nodiscard]] Status write(wire::Type type, io::Bytes payload);
    [[nodiscard]] Status write(const wire::Write& message);
    [[nodiscard]] Status read(const wire::Read& wanted, io::MutableBytes into);
    [[nodiscard]] Status truncate(io::Bytes payload);
    [[nodiscard]] Status read(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Status admit_reader(wire::Connection& connection);
    [[nodiscard]] Status open_cached(wire::Connection& connection, std::uint64_t number, const wire::Open& request);
    [[nodiscard]] Status read_cached(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Status change(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] Result<bool> close(wire::Connection& connection, const wire::Connection::Frame& frame);
    [[nodiscard]] bool allows(wire::Type type) const noexcept;
    void end_file(const Status& end);
    [[nodiscard]] Status follow(wire::Connection& connection, const wire::Connection::Frame& frame);

    ServedFiles* const files_;
    CachedFiles* const cached_files_;
    const std::uint64_t epoch_;
    const Report& report_;
    const wire::SealKey* const key_;
    std::atomic<bool>& writes_;
    // One of them.
    std::shared_ptr<ServedFile> served_;
    bool close_failed_ = false;   // what is staged of `served_` is read, and nothing more
    std::unique_ptr<ServedSnapshot> snapshot_;
    std::shared_ptr<Observers> observers_;
    std::unique_ptr<CachedFiles::Reader> reader_;   // then `cached_` may change from file to file, and be null
    std::shared_ptr<cache::CachedFile> cached_;
    std::uint64_t last_request_ = 0;
    wire::Payload buffer_;                        // what is read
    std::unique_ptr<io::SharedMemory> exposed_;   // the client's; null: none
};

}   // namespace forebay::server
