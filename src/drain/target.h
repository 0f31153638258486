// The target of one outflow: its file, its sizes, and the notes about its state in the log. `size` includes writes that
// are planned or in flight; `shown_size` counts ended ones only. A cut that is due waits for the writes beyond it. The
// log notes each change before and after (log/target_witness.h), so recovery can tell whether the target is as this
// process left it (log/target_state.h, recover/untouched.h). Invariants: the file is no shorter than `shown_size`. A
// cut that is due makes the target shorter. Processes that extend the file count as writers. Not thread-safe: the
// file's lock guards it. Blocking: `open` asks the target for its state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "drain/listener.h"
#include "io/file.h"
#include "log/target_witness.h"

namespace forebay::drain {

class Target {
  public:
    explicit Target(DrainListener& listener) noexcept : listener_(listener) {}
    // Begins with `file` of `size` bytes. `log_mount`: the mount of a durable log; 0: unknown.
    void open(std::shared_ptr<io::File> file, io::TimesKind times, std::uint64_t size, std::uint64_t log_mount) {
        file_ = std::move(file);
        size_ = shown_size_ = size;
        cut_due_.reset();
        was_cut_ = others_extend_ = size_in_doubt_ = false;
        const Status known = attempt([&]() -> Status {
            const auto now = file_->state();
            if (!now) return now.status();
            witness_.open(times, now.value(), log_mount != 0 ? log::mounts_of(now.value().mount, log_mount) : 0);
            return Status::ok();
        });
        if (!known) witness_.give_up();
        note();
    }
    [[nodiscard]] const std::shared_ptr<io::File>& file() const noexcept { return file_; }
    void reach_through(std::shared_ptr<io::File> file) noexcept { file_ = std::move(file); }

    // From now on other processes may write the target.
    void note_external_writers() noexcept {
        witness_.note_external_writers();
        note();
    }
    // From now on other processes may extend the target.
    void note_external_growth() noexcept {
        others_extend_ = true;
        note_external_writers();
    }
    [[nodiscard]] bool others_write() const noexcept { return witness_.state().others_write; }
    [[nodiscard]] bool others_extend() const noexcept { return others_extend_; }
    // Another program has changed the target.
    void note_foreign_change() noexcept {
        if (witness_.state().changed) return;
        witness_.others_changed();
        note();
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    void set_size(std::uint64_t size) noexcept { size_ = size; }
    void reaches(std::uint64_t end) noexcept { size_ = std::max(size_, end); }
    [[nodiscard]] std::uint64_t shown_size() const noexcept { return shown_size_; }
    // True after a failed write or change of size, which may have come in part.
    [[nodiscard]] bool size_in_doubt() const noexcept { return size_in_doubt_; }
    // The size to which the target must be cut before later writes beyond it.
    [[nodiscard]] std::optional<std::uint64_t> cut_due() const noexcept { return cut_due_; }
    // True if the program has cut the file since the open.
    [[nodiscard]] bool was_cut() const noexcept { return was_cut_; }
    void note_cut() noexcept { was_cut_ = true; }
    // Notes a commit of a file of `logical_size` bytes. A later, longer commit does not undo a cut.
    void commit(std::uint64_t logical_size) noexcept {
        if (size_ > logical_size) cut_to(std::min(cut_due_.value_or(size_), logical_size));
    }
    // A change of size has succeeded. `lengthened`: it could not make the target shorter.
    void resized(std::uint64_t size, bool lengthened, const Backlog& backlog) noexcept {
        if (!lengthened) size_in_doubt_ = false;
        size_ = lengthened ? std::max(size_, size) : size;
        shown_size_ = lengthened ? std::max(shown_size_, size) : size;
        if (cut_due_ == size_) cut_due_.reset();
        // A commit to a smaller size came during the extension.
        if (!cut_due_ && size_ > backlog.committed_size && size_ > backlog.logical_size)
            cut_to(std::max(backlog.committed_size, backlog.logical_size));
    }

    // A caller that changes the witness calls `note`.
    [[nodiscard]] log::TargetWitness& witness() noexcept { return witness_; }
    void note() noexcept { listener_.note(witness_.state()); }
    // A write of `range` begins with the readable bytes `sample`. An empty range is no write.
    void begin_write(ByteRange range, io::Bytes sample) noexcept {
        if (range.empty()) return;
        witness_.begin_write(range, sample);
        note();
    }
    void end_write(ByteRange range, bool written) noexcept {
        size_in_doubt_ = size_in_doubt_ || !written;
        if (written) shown_size_ = std::max(shown_size_, range.end);
        if (range.empty()) return;
        witness_.end_write(range, written);
        note();
    }
    void begin_resize(std::uint64_t size) noexcept {
        witness_.begin_resize(size);
        note();
    }
    void end_resize(bool done) noexcept {
        size_in_doubt_ = size_in_doubt_ || !done;
        witness_.end_resize(done);
        note();
    }

  private:
    void cut_to(std::uint64_t size) noexcept {
        cut_due_ = size;
        was_cut_ = true;
    }

    DrainListener& listener_;
    std::shared_ptr<io::File> file_;
    log::TargetWitness witness_;
    std::uint64_t size_ = 0, shown_size_ = 0;
    std::optional<std::uint64_t> cut_due_;
    bool was_cut_ = false, others_extend_ = false, size_in_doubt_ = false;
};

}   // namespace forebay::drain
