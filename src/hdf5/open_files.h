// The files of this process that it writes together with other ranks.
//
// Thread-safety: all calls from any thread. Nothing blocks.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "node/shared_file.h"

namespace forebay::hdf5 {

// By what several opens of one file have in common.
class OpenFiles {
  public:
    static OpenFiles& get() {
        static OpenFiles& files = *new OpenFiles;   // as the session: HDF5 closes files from its exit handler
        return files;
    }
    std::shared_ptr<node::SharedFile> find(dev_t device, ino_t inode) {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find({device, inode});
        return found == files_.end() ? nullptr : found->second.file;
    }
    void add(dev_t device, ino_t inode, const std::shared_ptr<node::SharedFile>& file) {
        const std::lock_guard lock(mutex_);
        Entry& entry = files_[{device, inode}];
        entry.file = file;
        ++entry.handles;
    }
    // True if that was the last handle.
    bool remove(dev_t device, ino_t inode) {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find({device, inode});
        if (--found->second.handles > 0)
            return false;
        files_.erase(found);
        return true;
    }
    void set_atomic(const node::SharedFile& file, bool atomic) {
        const std::lock_guard lock(mutex_);
        for (auto& [identity, entry] : files_)
            if (entry.file.get() == &file)
                entry.atomic = atomic;
    }
    bool is_atomic(const node::SharedFile& file) {
        const std::lock_guard lock(mutex_);
        return std::any_of(files_.begin(), files_.end(),
                           [&](const auto& item) { return item.second.file.get() == &file && item.second.atomic; });
    }
    bool is_atomic(dev_t device, ino_t inode) {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find({device, inode});
        return found != files_.end() && found->second.atomic;
    }

  private:
    struct Entry {
        std::shared_ptr<node::SharedFile> file;
        std::size_t handles = 0;
        bool atomic = false;
    };
    std::mutex mutex_;
    std::map<std::pair<dev_t, ino_t>, Entry> files_;
};

}   // namespace forebay::hdf5
