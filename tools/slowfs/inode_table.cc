#include "inode_table.h"

#include <unistd.h>

namespace forebay::slowfs {

Inode::~Inode() {
    if (fd >= 0) ::close(fd);
}

Inode& InodeTable::found(int fd, const struct stat& attributes) {
    auto candidate = std::make_unique<Inode>(fd, attributes);   // closes `fd` if the file is known already
    const std::scoped_lock lock(mutex_);
    auto& inode = inodes_[{attributes.st_dev, attributes.st_ino}];
    if (!inode) inode = std::move(candidate);
    inode->lookups += 1;
    return *inode;
}

void InodeTable::forget(Inode& inode, std::uint64_t lookups) {
    const std::scoped_lock lock(mutex_);
    inode.lookups -= lookups;
    if (inode.lookups == 0) inodes_.erase({inode.device, inode.number});
}

}   // namespace forebay::slowfs
