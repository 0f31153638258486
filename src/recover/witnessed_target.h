// A target that recovery writes to.
//
// What is about to be done to it is noted first, as the process did that has left the log: if the recovery is killed,
// the next one can tell what this one has written from what others have. And before each change the target is compared
// with what this recovery itself left after the last one: what others have written since, or appended, is neither
// written over nor cut. The window that is left is one call. So changes are made one after the other. Thread-safe.
// Blocks as the target does, and on a note before and after each change.
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
        io::FileState now{};        // the target is so, and locked
        log::TargetState known{};   // what was noted of it before
        // Where it is noted. None: it is not, as nothing was noted before.
        std::function<Status(const log::TargetState&)> store{};
        // Others have changed it since: samples of it are no sign any more.
        bool although_changed = false;
        // To others it is to look as if nothing had been written: sets its mtime back, as long as that is the one that
        // this recovery found, or its own write has made.
        std::function<Status(std::uint64_t modified_ns)> set_modified{};
    };
    WitnessedTarget(std::shared_ptr<io::File> target, Setup setup);

    // kUnsupported, of each change: others have changed the target meanwhile. Nothing was done.
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

  private:
    // Under mutex_.
    Status change(const std::function<void()>& begin, const std::function<Status()>& act,
                  const std::function<void()>& end);
    Status check_untouched_since();
    Status note();
    Status come_to_rest();
    void look_before_write(ByteRange range);

    const Setup setup_;
    std::mutex mutex_;
    log::TargetWitness witness_;   // under mutex_
    io::FileState left_;           // under mutex_: the target after the last change, as far as its times are known
    std::uint64_t noted_;          // under mutex_: serial of the last note
};

}   // namespace forebay::recover
