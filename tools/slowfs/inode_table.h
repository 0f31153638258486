// The files of the backing directory that the kernel knows, by device and inode number. Thread-safe.
//
// The kernel's node number is the address of an Inode, which lives from the first lookup until all are forgotten. Its
// O_PATH descriptor survives renames and unlinks, and keeps other files from its inode number.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace forebay::slowfs {

struct Inode {
    int fd = -1;   // O_PATH
    dev_t device = 0;
    ino_t number = 0;
    std::uint64_t lookups = 0;
    std::atomic<int> late_error{0};   // of a lost write; the next fsync or close takes it

    Inode(int path_fd, const struct stat& attributes) noexcept
        : fd(path_fd), device(attributes.st_dev), number(attributes.st_ino) {}
    ~Inode();
    Inode(const Inode&) = delete;
    Inode& operator=(const Inode&) = delete;
};

class InodeTable {
  public:
    // Takes `fd`, an O_PATH descriptor of the file, and counts a lookup. The inode stays valid until it is forgotten.
    Inode& found(int fd, const struct stat& attributes);
    void forget(Inode& inode, std::uint64_t lookups);

  private:
    std::mutex mutex_;
    std::map<std::pair<dev_t, ino_t>, std::unique_ptr<Inode>> inodes_;
};

}   // namespace forebay::slowfs
