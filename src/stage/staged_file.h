// One open file whose writes are staged: read-your-writes, truncate, commit, drain, close. The HDF5 file driver calls
// this with byte extents; HDF5 and MPI are unknown here. Every handle of the process on one file (device and inode)
// shares one `StagedFile`, from `Engine::attach`. It writes, truncates, commits and drains for the program. Parts:
//
//   FileState         the state of the file, its modes and its locks               stage/file_state.h
//   StagingLog        segments and the room in them; a fault of the mapping        stage/staging_log.h
//   CommitPolicy      how a commit is made safe, and when segments may go          stage/commit_policy.h
//   StagedReader      reads of staged bytes on top of the target                   stage/staged_reader.h
//   Lifecycle         opening for writing, stepping aside, closing                 stage/lifecycle.h
//   GroupMembership   a file that several processes of the node write              stage/group_membership.h
//   DrainedFile       answers to the outflow, which drains (drain/outflow.h)       stage/drained_file.h
//
// Invariants: each byte that the program wrote is in the log and indexed, or in the target, before the write returns.
// While the log's device has lost bytes that may be among them, the file stays staged, and no flush or close succeeds.
// Thread-safety: every call from any thread. Calls that return a Status may wait for room, the target or a device. A
// wait for the target fails with ETIMEDOUT once nothing has reached it for as long as option patience says. Nothing is
// lost by that, and the call may be made again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "extent/range.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "log/file_log.h"
#include "stage/commit_policy.h"
#include "stage/drained_file.h"
#include "stage/file_context.h"
#include "stage/file_state.h"
#include "stage/group_membership.h"
#include "stage/lifecycle.h"
#include "stage/staged_reader.h"
#include "stage/staging_log.h"

namespace forebay::stage {

enum class ByteClass : std::uint8_t { kRaw, kMetadata };

// Which staged bytes a drain waits for. kReady: those that may drain now; bytes that wait for a commit stay in the
// log, so that a crash leaves the last commit. kAll: these too.
enum class DrainScope : std::uint8_t { kReady, kAll };

class StagedFile final : public std::enable_shared_from_this<StagedFile> {
  public:
    using Part = log::FileLog::Part;
    using ReadPart = StagedReader::ReadPart;

    // `target` can at least be read. The context outlives the file.
    StagedFile(FileContext& context, FileState::Name name, std::shared_ptr<io::File> target);
    ~StagedFile();

    // Copies the bytes into the staging log; they are the newest content for every later `read` of this process. Many
    // small parts of one call share records. Blocks only for room (option full). Errors: those of a direct write, as
    // bytes that the log cannot take go to the target; without room also the kept background error. After that, bytes
    // are still taken and kept; commit and close report it.
    Status write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class);
    Status write(std::span<const Part> parts, ByteClass byte_class);
    // Bypasses the log and writes raw data to the target: with several nodes, when other nodes write beside it.
    Status write_bypassing(std::span<const Part> parts);

    Status read(std::uint64_t offset, io::MutableBytes into);
    Status read(std::span<const ReadPart> parts) { return reader_.read(parts); }

    // Sets the logical size; bytes beyond it are gone. Waits for the target in mode bypass only.
    Status truncate(std::uint64_t size);
    [[nodiscard]] std::uint64_t size() const;

    // Makes everything written before one consistent state (H5Fflush), which the process's death no longer loses, and
    // which may drain. With option flush=drain, blocks until it has drained. Reports the kept background error.
    Status commit();

    // Returns once every staged byte of the scope is in the target. Reports the kept background error, and a loss of
    // the staging device (FileLog::lost). For a shared file: the bytes that the drainer's process knows of, and
    // its own log's losses.
    Status drain(DrainScope scope = DrainScope::kAll);
    // Syncs the target: drained bytes are on its device.
    Status sync_drained();

    [[nodiscard]] bool staged() const;
    [[nodiscard]] ledger::FileCounters counters() const { return ledger::snapshot(*file_.counters); }
    [[nodiscard]] const std::string& path() const noexcept { return file_.name.path; }
    [[nodiscard]] const io::Identity& identity() const noexcept { return file_.name.identity; }

    [[nodiscard]] FileState& state() noexcept { return file_; }
    [[nodiscard]] StagingLog& log() noexcept { return log_; }
    [[nodiscard]] StagedReader& reader() noexcept { return reader_; }
    [[nodiscard]] Lifecycle& lifecycle() noexcept { return lifecycle_; }
    [[nodiscard]] const Lifecycle& lifecycle() const noexcept { return lifecycle_; }
    [[nodiscard]] GroupMembership& membership() noexcept { return membership_; }

  private:
    enum class Route : std::uint8_t { kLog, kBypass };
    Status write(std::span<const Part> parts, ByteClass byte_class, Route route);
    Status meet_size_limit(std::uint64_t end) REQUIRES(file_.writer);
    Status drain_staged() REQUIRES(file_.writer, file_.mutex());
    Status stage_parts(std::span<const Part> parts, ByteClass byte_class) REQUIRES(file_.writer);
    Status stage_part(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) REQUIRES(file_.writer);
    bool append(std::span<const Part> parts, ByteClass byte_class) REQUIRES(file_.writer);
    void append_own(std::span<const Part> parts, const index::OwnRecords::Record& record) REQUIRES(file_.writer);
    Status write_after_fault(std::span<const Part> parts) REQUIRES(file_.writer);
    [[nodiscard]] bool waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept;
    [[nodiscard]] bool bypasses_after_failure() const;
    [[nodiscard]] ByteRange part_to_bypass(ByteRange range, ByteClass byte_class) const noexcept REQUIRES(file_.writer);
    Status bypass_fast(const Part& part) REQUIRES(file_.writer);

    // The bytes that a log may have for the place of a bypass.
    enum class Place : std::uint8_t { kPerhapsStaged, kNeverStaged };
    Status write_unstaged(std::uint64_t offset, io::Bytes bytes) REQUIRES(file_.writer);
    Status bypass(std::uint64_t offset, io::Bytes bytes) REQUIRES(file_.writer);
    Status bypass_beside_others(std::span<const Part> parts, Place place = Place::kPerhapsStaged)
        REQUIRES(file_.writer);
    void note_bypassed(ByteRange range) REQUIRES(file_.writer, file_.mutex());
    bool append_bypass_record(ByteRange range, Place place = Place::kPerhapsStaged)
        REQUIRES(file_.writer, file_.mutex());

    DrainedFile drained_;
    FileState file_;
    StagingLog log_;
    StagedReader reader_;
    Lifecycle lifecycle_;
    GroupMembership membership_;
};

}   // namespace forebay::stage
