#include "hdf5/open_files.h"

#include <algorithm>

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

OpenFiles& OpenFiles::get() {
    static Immortal<OpenFiles> files;
    return *files;
}

void OpenFiles::add(const H5FD_t& handle, const std::shared_ptr<OpenFile>& file) {
    const std::lock_guard lock(mutex_);
    if (files_.emplace(&handle, file).second && file->with_mpi) with_mpi_.fetch_add(1, std::memory_order_release);
}

void OpenFiles::remove(const H5FD_t& handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(&handle);
    if (found == files_.end()) return;
    if (found->second->with_mpi && with_mpi_.fetch_sub(1) == 1) unlinked_.store(false, std::memory_order_relaxed);
    files_.erase(found);
}

std::shared_ptr<OpenFile> OpenFiles::find(unsigned long number) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(files_, [&](const auto& item) { return item.first->fileno == number; });
    return found == files_.end() ? nullptr : found->second;
}

std::shared_ptr<OpenFile> OpenFiles::only() {
    const std::lock_guard lock(mutex_);
    return files_.size() == 1 ? files_.begin()->second : nullptr;
}

bool OpenFiles::is_empty() {
    const std::lock_guard lock(mutex_);
    return files_.empty();
}

std::shared_ptr<OpenFile> OpenFiles::only(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<OpenFile> found;
    for (const auto& [handle, file] : files_) {
        if (file->name != name) continue;
        if (found != nullptr) return nullptr;
        found = file;
    }
    return found;
}

bool OpenFiles::has_serial(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(files_, [&](const auto& item) {
        return !item.second->with_mpi && item.second->identity == identity;
    });
}

std::shared_ptr<file::SharedFile> OpenFiles::shared(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, file] : files_)
        if (file->shared != nullptr && file->identity == identity) return file->shared;
    return nullptr;
}

std::vector<std::shared_ptr<file::SharedFile>> OpenFiles::all_shared_locked() const {
    std::vector<std::shared_ptr<file::SharedFile>> all;
    for (const auto& [handle, file] : files_)
        if (file->shared != nullptr && std::ranges::find(all, file->shared) == all.end()) all.push_back(file->shared);
    return all;
}

std::shared_ptr<file::SharedFile> OpenFiles::only_shared() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<file::SharedFile> only;
    for (const auto& [handle, file] : files_) {
        if (file->shared == nullptr || file->shared == only) continue;
        if (only != nullptr) return nullptr;
        only = file->shared;
    }
    return only;
}

std::vector<std::shared_ptr<file::SharedFile>> OpenFiles::on_several_nodes() {
    const std::lock_guard lock(mutex_);
    auto found = all_shared_locked();
    std::erase_if(found, [](const auto& file) { return !file->on_several_nodes(); });
    return found;
}

std::optional<std::vector<std::shared_ptr<file::SharedFile>>> OpenFiles::all_shared_within(
    std::chrono::milliseconds at_most) {
    const std::unique_lock lock(mutex_, at_most);
    return lock ? std::optional(all_shared_locked()) : std::nullopt;
}

std::shared_ptr<OpenFile> open_file_of(void* under, hid_t connector) {
    const QuietErrors quiet;
    unsigned long number = 0;
    H5VL_file_get_args_t args{};
    args.op_type = H5VL_FILE_GET_FILENO;
    args.args.get_fileno.fileno = &number;
    if (host().H5VLfile_get(under, connector, &args, *host().H5P_LST_DATASET_XFER_ID_g, nullptr) < 0) return nullptr;
    return OpenFiles::get().find(number);
}

}   // namespace forebay::hdf5
