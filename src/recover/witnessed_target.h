// A target that recovery writes to. It notes each change first, as the dead process did, so that the next recovery
// tells its writes from those of other programs. Before each change it compares the target with its state after the
// last one, and so does not overwrite or cut other programs' bytes; a window of one call remains. Changes happen one
// after another. Thread-safe. Blocks as the target does, and on a note before and after each change.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "io/forwarding_file.h"
#include "log/scan.h"
#include "log/target_witness.h"

namespace forebay::recover {

class WitnessedTarget final : public io::ForwardingFile {
  public:
    struct Setup {
        io::FileState now{};        // the locked target
        log::TargetState known{};   // the state noted before
        // Stores a note. None: nothing was noted before, so nothing is noted.
        std::function<Status(const log::TargetState&)> store{};
        // Other programs have changed the target: its samples prove nothing.
        bool although_changed = false;
        // Sets the mtime back, so that other nodes see no write; only from the one found or its own write's.
        std::function<Status(std::uint64_t modified_ns)> set_modified{};
    };
    WitnessedTarget(std::shared_ptr<io::File> target, Setup setup);

    // Each change fails with kUnsupported, undone, if another program has changed the target.
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

  private:
    // The functions below need mutex_.
    Status change(const std::function<void()>& begin, const std::function<Status()>& act,
                  const std::function<void()>& end);
    Status check_untouched_since();
    Status note();
    Status come_to_rest();
    void look_before_write(ByteRange range);

    const Setup setup_;
    std::mutex mutex_;
    log::TargetWitness witness_;   // under mutex_
    io::FileState left_;           // under mutex_: the target after the last change
    std::uint64_t noted_;          // under mutex_: serial of the last note
};

}   // namespace forebay::recover
