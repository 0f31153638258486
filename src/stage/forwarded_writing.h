// The writing of a file that a staging server stages for this process (docs/protocol.md). Every change goes to the
// server. Reads go there too, through the `reader`: the file's entry in the engine, whose target is the file at the
// server. So all handles of this process see what it has written. After a failed close, the reader keeps the failure
// and the connection. Ownership: shared by the FileTable and the program's file. Holds the reader, whose context
// outlives both. Locks: each change holds `writer_`; after it come the locks of the reader. Thread-safety: every call
// from any thread. Blocking: every call waits for the server, with patience. In a forked child changes fail, and a
// commit or drain does nothing. Errors: those of io::ForwardedTarget.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "base/status.h"
#include "io/forwarded_target.h"
#include "ledger/ledger.h"
#include "stage/staged_file.h"
#include "stage/writing.h"

namespace forebay::stage {

class ForwardedWriting final : public Writing {
  public:
    using Part = StagedFile::Part;

    // The reader reads from `target` (Lifecycle::read_through).
    ForwardedWriting(std::shared_ptr<StagedFile> reader, std::shared_ptr<io::ForwardedTarget> target) noexcept
        : reader_(std::move(reader)), file_(reader_->state()), target_(std::move(target)) {}

    [[nodiscard]] const std::shared_ptr<StagedFile>& reader() const noexcept { return reader_; }

    Status write(std::span<const Part> parts, ByteClass byte_class);
    Status truncate(std::uint64_t size);
    void note_size(std::uint64_t size) noexcept;
    // While `why` is a failure, commits, `step_aside` and the close fail with it, and the server commits nothing. Ok
    // takes that back. See Lifecycle::withhold.
    void withhold(const Status& why) noexcept;
    // As `withhold`, before `finish_unclosed`. Does not wait: does nothing while a thread of the program is in a call.
    void withhold_at_end(const Status& why) noexcept;
    // Makes all earlier writes one consistent state (H5Fflush). With option flush=drain, also drains.
    Status commit();
    // Returns when all written bytes are in the file, committed or not.
    Status drain();
    // See Lifecycle::expose_offsets.
    Status expose_offsets();

    Status step_aside(ledger::AsideReason reason) override;
    Status finish() override;
    Status finish_unclosed() override;

  private:
    Status write_part(const Part& part, ByteClass byte_class) REQUIRES(writer_);
    Status close() REQUIRES(writer_);
    [[nodiscard]] bool sync_due() const noexcept;

    const std::shared_ptr<StagedFile> reader_;
    FileState& file_;   // of the reader
    const std::shared_ptr<io::ForwardedTarget> target_;
    Mutex writer_;
    Status withheld_ GUARDED_BY(writer_);
};

}   // namespace forebay::stage
