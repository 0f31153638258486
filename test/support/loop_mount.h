// A mounted file system on a loop device, which a test can make fail. Needs root; `mounted` tells if that worked.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace forebay::test {

class LoopMount {
  public:
    explicit LoopMount(std::uint64_t size_mib) {
        char name[] = "/tmp/forebay-loop-XXXXXX";
        root_ = ::mkdtemp(name);
        std::filesystem::create_directory(path());
        mounted_ = ::geteuid() == 0 && run("truncate -s " + std::to_string(size_mib) + "M " + image()) &&
                   run("mkfs.ext4 -q " + image()) && run("mount -o loop " + image() + " " + path().string());
    }
    ~LoopMount() {
        if (mounted_) (void)run("umount -l " + path().string());
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    LoopMount(const LoopMount&) = delete;
    LoopMount& operator=(const LoopMount&) = delete;

    [[nodiscard]] bool mounted() const { return mounted_; }
    [[nodiscard]] std::filesystem::path path() const { return root_ / "mounted"; }

    // Syncs the file system, drops this process's mapped pages from memory, and makes every later access to the device
    // fail.
    [[nodiscard]] bool shut_down() const {
        const int descriptor = ::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool dropped = false;   // the kernel keeps a page in use
        for (int attempt = 0; attempt < 100 && !dropped && descriptor >= 0 && ::syncfs(descriptor) == 0; ++attempt)
            dropped = drop_mapped();
        if (descriptor >= 0) ::close(descriptor);
        // Truncates the file behind the device, so that every block is beyond its end.
        return dropped && run("truncate -s 0 " + image()) && run("losetup -c $(losetup -n -O NAME -j " + image() + ")");
    }

  private:
    // Returns true if no mapped page is left in memory.
    [[nodiscard]] bool drop_mapped() const {
        bool none = true;
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find(path().string()) == std::string::npos) continue;
            const std::uintptr_t begin = std::stoull(line, nullptr, 16),
                                 end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
            (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
            if (const int file = ::open(line.substr(line.find('/')).c_str(), O_RDONLY | O_CLOEXEC); file >= 0) {
                (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);   // pages in memory that are not mapped
                ::close(file);
            }
            std::vector<unsigned char> resident((end - begin + 4095) / 4096);
            none = none && ::mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()) == 0 &&
                   std::none_of(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; });
        }
        return none;
    }
    [[nodiscard]] std::string image() const { return (root_ / "image").string(); }
    static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

    std::filesystem::path root_;
    bool mounted_ = false;
};

}   // namespace forebay::test
