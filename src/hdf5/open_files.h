// The files that the drivers have open for HDF5, for the connector to find.
//
// HDF5 gives each open file a number (H5FD_t::fileno, H5Fget_fileno), the same to both sides, and never the same twice
// in one library. It stores the number once the driver's `open` has returned, so it is read when it is asked for.
// Several opens of one file share one H5FD_t, and with it one OpenFile, unless the driver is the MPI driver: HDF5 opens
// that anew each time, and those opens have a SharedFile in common.
//
// Thread-safety: all calls from any thread. Nothing blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/immortal.h"
#include "hdf5/host/host.h"
#include "hdf5/open_file.h"

namespace forebay::hdf5 {

class OpenFiles {
  public:
    static OpenFiles& get();

    // From the driver's `open` to its `close`.
    void add(const H5FD_t& handle, const std::shared_ptr<OpenFile>& file);
    void remove(const H5FD_t& handle) noexcept;
    // Null: no file of ours has this number.
    [[nodiscard]] std::shared_ptr<OpenFile> find(unsigned long number);
    // The only one there is. Null: there are none, or several.
    [[nodiscard]] std::shared_ptr<OpenFile> only();
    // The only one that was opened by this name. Null: there are none, or several.
    [[nodiscard]] std::shared_ptr<OpenFile> only(const std::string& name);

    // ---- files that ranks open together ----

    [[nodiscard]] bool any_with_mpi() const noexcept { return with_mpi_.load(std::memory_order_acquire) > 0; }
    // What the ranks share of the file with this identity. Null: it is not open for writing.
    [[nodiscard]] std::shared_ptr<file::SharedFile> shared(const io::Identity& identity);
    // The only one there is. Null: there are none, or several.
    [[nodiscard]] std::shared_ptr<file::SharedFile> only_shared();
    [[nodiscard]] std::vector<std::shared_ptr<file::SharedFile>> on_several_nodes();
    // For the end of the process. Nothing: another thread is at it all the time.
    [[nodiscard]] std::optional<std::vector<std::shared_ptr<file::SharedFile>>> all_shared_within(
        std::chrono::milliseconds at_most);

    // An object without a link may be open: closing it frees what it holds.
    void note_unlinked() noexcept {
        if (any_with_mpi()) unlinked_.store(true, std::memory_order_relaxed);
    }
    [[nodiscard]] bool may_have_unlinked() const noexcept { return unlinked_.load(std::memory_order_relaxed); }

  private:
    friend class forebay::Immortal<OpenFiles>;
    OpenFiles() = default;
    [[nodiscard]] std::vector<std::shared_ptr<file::SharedFile>> all_shared_locked() const;

    std::timed_mutex mutex_;
    std::map<const H5FD_t*, std::shared_ptr<OpenFile>> files_;
    std::atomic<std::size_t> with_mpi_{0};
    std::atomic<bool> unlinked_{false};
};

// Of a file object of the connector beneath. Null: HDF5 does not tell, or it is no file of ours.
[[nodiscard]] std::shared_ptr<OpenFile> open_file_of(void* under, hid_t connector);

}   // namespace forebay::hdf5
