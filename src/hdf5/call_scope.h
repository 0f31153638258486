// Tells the drivers, which see bytes only, the kind of this thread's HDF5 call, and the connector the failures in it.
// Each callback of the connector has a scope on its stack. Scopes nest: a callback of the program (a datatype
// conversion, an iteration) may make a call of another kind. A call may flush or close several files (mounted ones,
// external links). The scope lists those with a failure (open_file.h). An unreported failure passes to the call around
// it; at the end of the outermost call, a closed file's passes to the session, which writes it to standard error.
// Thread-safety: each thread has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "hdf5/open_file.h"

namespace forebay::hdf5 {

enum class CallKind {
    kOther,
    // The flush or refresh of one object (H5Dflush and its kin). No commit: the superblock may not cover it.
    kObjectFlush,
    // An independent transfer of datasets without filters: HDF5 writes the program's raw data. It writes all other raw
    // data for all ranks (fill values, copies, global heaps, large attributes, filtered chunks). With several nodes
    // these go straight to the file, where the next rank to use the place finds them.
    kOwnData,
};

class CallScope {
  public:
    explicit CallScope(CallKind kind) noexcept : kind_(kind), outer_(innermost_) {
        innermost_ = this;
        calls_.fetch_add(1, std::memory_order_relaxed);
    }
    ~CallScope() {
        innermost_ = outer_;
        if (failed_ != nullptr) pass_on();
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

    [[nodiscard]] static CallKind kind() noexcept {
        return innermost_ != nullptr ? innermost_->kind_ : CallKind::kOther;
    }

    // Number of scopes made so far in the process. While it is unchanged, the program has changed nothing.
    [[nodiscard]] static std::uint64_t calls() noexcept { return calls_.load(std::memory_order_relaxed); }

    // HDF5 has asked for the communicator of this file: all ranks take part in the step that HDF5 is in.
    static void note_collective_step(const std::shared_ptr<OpenFile>& file) noexcept {
        if (innermost_ != nullptr) innermost_->stepped_ = file;
    }
    // The file of the last such step of the innermost call, or null.
    [[nodiscard]] static std::shared_ptr<OpenFile> collective_step() noexcept {
        return innermost_ != nullptr ? innermost_->stepped_ : nullptr;
    }

    // The driver could not do HDF5's request, and must not fail: `file` keeps the failure for this call.
    static void keep_failure(const std::shared_ptr<OpenFile>& file, OpenFile::During during, Status failure) noexcept;
    static void note_closed(const std::shared_ptr<OpenFile>& file) noexcept;

    // Returns the first such failure of any file in the innermost call, or ok.
    [[nodiscard]] static Status take_failure(OpenFile::During during) noexcept;
    // The call has opened `file` after HDF5 closed its first try: passes failures of the same file on to `file`.
    static void leave_failures_to(OpenFile& file) noexcept;

  private:
    static void note_failed(const std::shared_ptr<OpenFile>& file) noexcept;
    [[nodiscard]] bool add_failed(const std::shared_ptr<OpenFile>& file) noexcept;
    template <typename Visit>
    void each_failed(Visit&& visit) const {
        if (failed_ != nullptr) visit(failed_);
        for (const auto& file : failed_too_) visit(file);
    }
    void pass_on() noexcept;

    static inline thread_local CallScope* innermost_ = nullptr;
    static inline std::atomic<std::uint64_t> calls_{0};
    const CallKind kind_;
    CallScope* const outer_;
    std::shared_ptr<OpenFile> stepped_;
    std::shared_ptr<OpenFile> failed_;   // needs no memory: most often memory is short then
    std::vector<std::shared_ptr<OpenFile>> failed_too_;
};

}   // namespace forebay::hdf5
