// The calls that a file of the program has, one class for each way in which it is staged.
//
//   LocalFile    written or read by this process alone (local_file.h)
//   SharedFile   written by the ranks of a communicator together (shared_file.h)
//
// The kind is chosen once, when the file is opened. Ownership: one object for each open of a file; the ranks' opens of
// a file share one. Thread-safety: write, read, await_drained and expose_offsets may come from any thread; of the
// others one at a time. The calls of a SharedFile that are marked collective are made by all members of its team, in
// the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "ledger/ledger.h"
#include "stage/engine.h"

namespace forebay::file {

class ProgramFile {
  public:
    using Part = stage::StagedFile::Part;
    using ReadPart = stage::StagedFile::ReadPart;

    virtual ~ProgramFile() = default;

    // The parts are the newest content of their places. Errors and blocking: StagedFile::write.
    virtual Status write(std::span<const Part> parts, stage::ByteClass byte_class) = 0;
    // The newest content, in any order of the parts; zeros beyond the end.
    virtual Status read(std::span<const ReadPart> parts) = 0;
    // Sets the size that the program sees. Collective.
    virtual Status truncate(std::uint64_t size) = 0;
    // Makes one consistent state of everything written before (H5Fflush). Collective.
    virtual Status commit() = 0;
    // Returns once all that may drain has reached the target. Blocks.
    virtual Status await_drained() = 0;
    // Drains; writes go straight to the target from then on. Collective.
    virtual Status step_aside(ledger::AsideReason reason) = 0;
    // The program learns where its data lie in the file, and may read them there without HDF5: drains what is staged,
    // and from then on a write returns once its bytes are in the target.
    virtual Status expose_offsets() = 0;
    // Ends this open: commits, drains, sets the size. Returns before the drain has ended if option close allows it;
    // `afterwards` is then called later. Collective.
    virtual stage::Engine::Detached close(stage::AfterClose afterwards) = 0;

    // The part of the file that this process stages: its size, its counters, pauses of its drain.
    [[nodiscard]] stage::StagedFile& staged() const noexcept { return *file_; }
    [[nodiscard]] std::uint64_t size() const { return file_->size(); }
    // The engine that the file is attached to.
    [[nodiscard]] stage::Engine& engine() const noexcept { return *engine_; }

  protected:
    explicit ProgramFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<stage::StagedFile> file = nullptr)
        : engine_(std::move(engine)), file_(std::move(file)) {}
    ProgramFile(const ProgramFile&) = delete;
    ProgramFile& operator=(const ProgramFile&) = delete;

    const std::shared_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
};

}   // namespace forebay::file
