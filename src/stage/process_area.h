// The part of the staging area that belongs to this process and engine. It has a directory, a lock that shows others
// that the process lives, the pool of log segments, and the ledger. The first file that is opened for writing opens it.
// If that fails, the reason is kept (`Obstacle`), and no file is staged. `leave` removes the directory, unless it holds
// what recovery needs. A process that dies leaves all of it, unlocked.
// Locks: `opening()`, the engine's outermost, serialises opening the area, attaching files (file_table.h) and counting
// files that are left alone. It is held while the area, or a target that is attached, is opened. `pool()` and
// `ledger()` need it until a file is staged, and no lock from then on. `claims_mutex_` is innermost. Thread-safety:
// every call from any thread. Calls that take `opening()` block on the staging area, and on the thread that holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "area/process.h"
#include "area/run_record.h"
#include "base/mutex.h"
#include "base/options.h"
#include "base/status.h"
#include "io/claim.h"
#include "io/file.h"
#include "ledger/ledger_writer.h"
#include "log/segment_pool.h"

namespace forebay::stage {

class ProcessArea {
  public:
    // Returns the directory in which the process makes its own: `forebay-<uid>`.
    using OpenArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    // `registers`: the area is where options say, is noted for commands (area/registry.h), and shows deferred closes.
    ProcessArea(const LoadedOptions& loaded, OpenArea open_area, bool registers, const area::RunRecord& run)
        : loaded_(loaded), open_area_(std::move(open_area)), registers_(registers), run_(run) {}

    [[nodiscard]] Mutex& opening() const RETURN_CAPABILITY(opening_) { return opening_; }

    // Why a file that is opened for writing now would not be staged.
    struct Obstacle {
        ledger::AsideReason reason;
        Status status;   // with option strict the error of `attach`, else the text of its warning
    };
    // Opens the area if need be. Returns none if files can be staged.
    [[nodiscard]] std::optional<Obstacle> obstacle() EXCLUDES(opening());
    // With option strict, before a file is created or truncated: why it cannot be staged. Else ok: `attach` decides.
    [[nodiscard]] Status admit() EXCLUDES(opening());
    // Returns the reason why a file may not be staged, or none. Fails with option strict only. Sets `warning` once.
    [[nodiscard]] Result<std::optional<ledger::AsideReason>> decide(std::string& warning) REQUIRES(opening());

    // The directory of this process, once a file is staged; else null.
    [[nodiscard]] io::Directory* directory() noexcept EXCLUDES(opening());
    // Its path, or empty. Takes no lock: for the end of the process, which waits for no thread that opens a file.
    [[nodiscard]] std::string directory_at_end() const NO_THREAD_SAFETY_ANALYSIS;
    // Null while no file is staged.
    [[nodiscard]] log::SegmentPool* pool() const noexcept { return pool_.get(); }
    [[nodiscard]] ledger::LedgerWriter& ledger() noexcept { return ledger_; }
    [[nodiscard]] bool registers() const noexcept { return registers_; }
    // The area for the read cache. A process that only reads stages nothing, and commands find what it caches.
    [[nodiscard]] Result<std::unique_ptr<io::Directory>> open_for_cache() const;

    // `processes` processes of this node, this one included, stage together. Bounds the reserve of each, so that all
    // together take no more of the machine's memory than one would. The staging area is in use.
    void share_reserve(std::uint64_t processes) noexcept EXCLUDES(opening());

    // The name that the processes which share memory with this one have in common: option node, or the machine's boot.
    [[nodiscard]] std::string node_name() const;
    // Groups that each open a file together stage it for themselves. They would not see each other's bytes, and the
    // last drain would win. So a node's drainer claims the file before it is written or emptied. EBUSY: another process
    // of this node, which the message names, has the claim. Others: unknown. Null: nothing is staged.
    [[nodiscard]] Result<std::unique_ptr<io::Claim>> claim(const io::Identity& identity) EXCLUDES(opening());
    // For a file that this process has closed, and may still write to: the claim ends with this object.
    void keep_claim(std::shared_ptr<io::Claim> claim) noexcept;

    // The engine ends: removes the directory, unless others need what is in it. Takes no lock, as `directory_at_end`.
    void leave() noexcept NO_THREAD_SAFETY_ANALYSIS;

  private:
    void look() REQUIRES(opening());
    [[nodiscard]] std::optional<Obstacle> open() REQUIRES(opening());
    [[nodiscard]] Status make_process_directory() REQUIRES(opening());
    [[nodiscard]] Status make_living_directory(const area::ProcessIdentity& process) REQUIRES(opening());
    [[nodiscard]] Status make_pool(const area::ProcessIdentity& process, std::optional<std::uint64_t> mappable)
        REQUIRES(opening());
    [[nodiscard]] std::uint64_t reserve_bytes(std::uint64_t processes) const noexcept REQUIRES(opening());
    void remove_process_directory() NO_THREAD_SAFETY_ANALYSIS;

    const LoadedOptions& loaded_;
    const OpenArea open_area_;
    const bool registers_;
    const area::RunRecord& run_;
    mutable Mutex opening_;
    bool tried_ GUARDED_BY(opening_) = false, warned_ GUARDED_BY(opening_) = false;
    bool claims_looked_at_ GUARDED_BY(opening_) = false;
    std::optional<Obstacle> obstacle_ GUARDED_BY(opening_);
    std::unique_ptr<io::Directory> area_ GUARDED_BY(opening_);        // forebay-<uid>
    std::unique_ptr<io::Directory> directory_ GUARDED_BY(opening_);   // of this process and engine
    std::string directory_name_ GUARDED_BY(opening_);
    std::unique_ptr<io::Lock> alive_;   // in the directory, for as long as this lives, or this image of the process
    ledger::LedgerWriter ledger_;
    std::unique_ptr<log::SegmentPool> pool_;
    std::uint64_t usable_memory_bytes_ GUARDED_BY(opening_) = 0;   // by the process, when the area was opened
    Mutex claims_mutex_;
    std::vector<std::shared_ptr<io::Claim>> claims_kept_ GUARDED_BY(claims_mutex_);
};

}   // namespace forebay::stage
