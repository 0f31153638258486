// What this thread's HDF5 call is about, for the drivers, which see bytes only; and what failed during it, for the
// connector, which can report it.
//
// Each callback of the connector has one on its stack. Calls nest: a callback of the program (a datatype conversion, an
// iteration) may call HDF5 again, and what the outer call is about does not hold for the inner one.
//
// One call may flush or close several files: a file and what is mounted in it, or the files of external links on a
// path. Each keeps its own failure (open_file.h); the scope knows which files have one. What a call does not report
// goes to the call around it. At the end of the outermost call a file that is closed has nobody left to report for it:
// its failure goes to the session, which writes it to standard error.
//
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
    // Flushing or refreshing one object (H5Dflush and its kin) writes its metadata and then flushes the driver. What
    // the file holds then is no consistent whole (the superblock need not cover the object), so it is no commit: a
    // recovered file would be worse off than with the last flush of the whole.
    kObjectFlush,
    // An independent transfer of datasets without filters: raw data that HDF5 writes is the program's. All other raw
    // data HDF5 writes on behalf of all ranks (fill values, copies, global heaps, large attributes, filtered chunks).
    // With several nodes that goes straight to the file, where the next rank to use the place finds it.
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

    // How many there have been in the process. The same number as before: the program has changed nothing since.
    [[nodiscard]] static std::uint64_t calls() noexcept { return calls_.load(std::memory_order_relaxed); }

    // HDF5 has asked for the communicator of this file: it is in a step of its own that all ranks take part in.
    static void note_collective_step(const std::shared_ptr<OpenFile>& file) noexcept {
        if (innermost_ != nullptr) innermost_->stepped_ = file;
    }
    // The file of the last such step of the innermost call. Null: there was none.
    [[nodiscard]] static std::shared_ptr<OpenFile> collective_step() noexcept {
        return innermost_ != nullptr ? innermost_->stepped_ : nullptr;
    }

    // The driver could not finish what HDF5 asked for, and must not fail: `file` keeps the failure for this call.
    static void keep_failure(const std::shared_ptr<OpenFile>& file, OpenFile::During during, Status failure) noexcept;
    // The driver has closed the file. What it has not reported by then is this call's to report.
    static void note_closed(const std::shared_ptr<OpenFile>& file) noexcept;

    // The first such failure in the innermost call, of any file. It is ok if there was none.
    [[nodiscard]] static Status take_failure(OpenFile::During during) noexcept;
    // The call has opened `file`, and HDF5 has closed what it tried first: a failure of the same file is now its.
    static void leave_failures_to(OpenFile& file) noexcept;

  private:
    static void note_failed(const std::shared_ptr<OpenFile>& file) noexcept;
    // False: there is no memory for one more.
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
    std::shared_ptr<OpenFile> failed_;   // the first takes no memory: want of memory is what most often fails
    std::vector<std::shared_ptr<OpenFile>> failed_too_;
};

}   // namespace forebay::hdf5
