// The last writers of a server's files (area/last_writer.h): which client may continue after the loss of its
// connection. Sees also the notes of earlier servers of the staging area. Keeps notes of at most `kept_max` files
// without a writer. For the time in option patience it also keeps all earlier notes, whose writers may continue; with
// patience 0 it keeps them all. Thread-safety: all calls from any thread. The calls block on the staging area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "area/last_writer.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "wire/frame.h"

namespace forebay::server {

class LastWriters {
  public:
    static constexpr std::size_t kKeptMax = 4096;
    // Refers to `options` and `clock`.
    LastWriters(const LoadedOptions& options, WaitClock& clock, std::size_t kept_max = kKeptMax)
        : options_(options), clock_(clock), kept_max_(kept_max) {}

    // Checks that no client has opened the file for writing since the one that continues. Then all bytes that this one
    // has flushed are in the file, or in a log of this staging area. kUnsupported: it may not continue; with ESTALE
    // because of another client, otherwise because nothing is noted here.
    [[nodiscard]] Status may_continue(const wire::Open& request);
    // Call this before a client changes the file. After a failure the client must not change it.
    [[nodiscard]] Status opens(const wire::Open& request);
    // Call this instead if the client writes the file without the server. If the new note cannot be written, this
    // removes the old one: that, too, ends the right of earlier clients.
    [[nodiscard]] Status leaves(const wire::Open& request);
    // Call this after the end of the writer that `opens` noted, before another one.
    void ended(const io::Identity& file, std::uint64_t writer) noexcept;

  private:
    [[nodiscard]] Status take_earlier(io::Directory& area);
    void age_earlier();

    const LoadedOptions& options_;
    WaitClock& clock_;
    const std::size_t kept_max_;
    std::mutex mutex_;
    std::uint64_t began_ns_ = 0;               // with the first open; 0: none
    std::vector<area::NotedWriter> earlier_;   // of earlier servers; their writers may continue
    std::deque<area::NotedWriter> kept_;       // of files without a writer, oldest first
};

}   // namespace forebay::server
