// A file system of its own on a loop device, which a test can make fail. Needs root; `mounted` says whether it worked.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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

    // Writes what is dirty, drops what this process has mapped from memory, and lets every later access to the device fail.
    [[nodiscard]] bool shut_down() const {
        const int descriptor = ::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const bool synced = descriptor >= 0 && ::syncfs(descriptor) == 0;
        if (descriptor >= 0) ::close(descriptor);
        drop_mapped();
        // The device is as long as the file behind it: every block is beyond its end now.
        return synced && run("truncate -s 0 " + image()) && run("losetup -c $(losetup -n -O NAME -j " + image() + ")");
    }

  private:
    void drop_mapped() const {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find(path().string()) == std::string::npos) continue;
            const std::uintptr_t begin = std::stoull(line, nullptr, 16), end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
            (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
        }
    }
    [[nodiscard]] std::string image() const { return (root_ / "image").string(); }
    static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

    std::filesystem::path root_;
    bool mounted_ = false;
};

}   // namespace forebay::test
