// The files that the drivers have open for HDF5. The connector looks them up here.
// HDF5 gives each open file a number (H5FD_t::fileno, H5Fget_fileno), which one library never reuses. HDF5 stores it
// after the driver's `open`, so `find` reads it anew. Several opens of one file share one H5FD_t and OpenFile, but HDF5
// opens the MPI driver anew each time; those opens share a SharedFile. Thread-safety: any thread. No call blocks.
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

    void add(const H5FD_t& handle, const std::shared_ptr<OpenFile>& file);
    void remove(const H5FD_t& handle) noexcept;
    [[nodiscard]] std::shared_ptr<OpenFile> find(unsigned long number);
    [[nodiscard]] std::shared_ptr<OpenFile> only();
    [[nodiscard]] bool is_empty();
    [[nodiscard]] std::shared_ptr<OpenFile> only(const std::string& name);
    // The serial driver has the file open.
    [[nodiscard]] bool has_serial(const io::Identity& identity);

    [[nodiscard]] bool any_with_mpi() const noexcept { return with_mpi_.load(std::memory_order_acquire) > 0; }
    // Returns the file with this identity that ranks write together, or null if none is open for writing.
    [[nodiscard]] std::shared_ptr<file::SharedFile> shared(const io::Identity& identity);
    [[nodiscard]] std::shared_ptr<file::SharedFile> only_shared();
    [[nodiscard]] std::vector<std::shared_ptr<file::SharedFile>> on_several_nodes();
    // Used at the end of the process. Returns nothing if another thread holds the lock all the time.
    [[nodiscard]] std::optional<std::vector<std::shared_ptr<file::SharedFile>>> all_shared_within(
        std::chrono::milliseconds at_most);

    // An object without a link may be open; its close frees its space.
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

// Returns the file of a file object of the connector beneath, or null if no file of forebay has its number. `under`
// must be a file object: HDF5 casts any other one unchecked, and the process crashes.
[[nodiscard]] std::shared_ptr<OpenFile> open_file_of(void* under, hid_t connector);

}   // namespace forebay::hdf5
