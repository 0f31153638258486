// The calls of a file that the program has open. Each way to stage a file is one class.
//
//   LocalFile       this process alone writes or reads the file (local_file.h)
//   ForwardedFile   this process alone writes the file, and a staging server stages it (forwarded_file.h)
//   SharedFile      the ranks of a communicator write the file together (shared_file.h)
//
// The open chooses the class. Ownership: each open of a file has one object; the ranks' opens of a file share one.
// Thread-safety: any thread may call write, read, await_drained and expose_offsets; of the other calls one runs at a
// time. All members of a SharedFile's team make the calls marked collective, in the same order.
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

    // The parts become the newest content of their places. Errors and blocking: StagedFile::write.
    virtual Status write(std::span<const Part> parts, stage::ByteClass byte_class) = 0;
    // Reads the newest content. The parts have any order. Bytes beyond the end are zeros.
    virtual Status read(std::span<const ReadPart> parts) = 0;
    // Sets the size that the program sees. Collective.
    virtual Status truncate(std::uint64_t size) = 0;
    // While `why` is a failure, a staged file stays at its last commit (Lifecycle::withhold). Ok takes that back, but
    // not for a SharedFile. Not collective.
    virtual void withhold(const Status& why) noexcept = 0;
    // Makes one consistent state of all earlier writes (H5Fflush). Collective.
    virtual Status commit() = 0;
    // Blocks until every byte that may drain is in the target.
    virtual Status await_drained() = 0;
    // Drains. Later writes bypass the log. Collective.
    virtual Status step_aside(ledger::AsideReason reason) = 0;
    // Exposes the offsets of data, for reads without HDF5. Drains; later writes return with their bytes in the target.
    virtual Status expose_offsets() = 0;
    // Ends this open: commits, drains and sets the size. If option close allows it, returns before the drain ends;
    // `afterwards` is then called later. Collective.
    virtual stage::Engine::Detached close(stage::AfterClose afterwards) = 0;

    // The file's entry in the engine.
    [[nodiscard]] stage::StagedFile& staged() const noexcept { return *file_; }
    [[nodiscard]] std::uint64_t size() const { return file_->size(); }
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
