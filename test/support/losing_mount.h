// A mounted file system whose device takes writes into memory, and fails to write them back: it lies on a loop device,
// whose image has no more room. The kernel drops such pages without a word to their writer. Needs root; `why_not` tells
// why there is none.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace forebay::test {

class LosingMount {
  public:
    // `kind` is "ext4" or "xfs".
    explicit LosingMount(const std::string& kind) {
        char name[] = "/tmp/forebay-losing-XXXXXX";
        root_ = ::mkdtemp(name);
        for (const char* const folder : {"backing", "mounted"}) std::filesystem::create_directory(root_ / folder);
        if (::geteuid() != 0) {
            why_not_ = "needs root";
        } else if (!(backed_ = run("mount -t tmpfs -o size=300m tmpfs " + backing().string()))) {
            why_not_ = "no tmpfs can be mounted";
        } else if (!run("truncate -s 400M " + image()) || !run("mkfs." + kind + " -q " + image())) {
            why_not_ = "mkfs." + kind + " makes no file system here";
        } else if (!(mounted_ = run("mount -o loop " + image() + " " + path().string()))) {
            why_not_ = "no " + kind + " can be mounted on a loop device";
        }
    }
    ~LosingMount() {
        if (mounted_) (void)run("umount -l " + path().string());
        if (backed_) (void)run("umount -l " + backing().string());
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    LosingMount(const LosingMount&) = delete;
    LosingMount& operator=(const LosingMount&) = delete;

    [[nodiscard]] const std::string& why_not() const { return why_not_; }   // empty: it is there
    [[nodiscard]] std::filesystem::path path() const { return root_ / "mounted"; }

    // Blocks that the device has not had before are lost from now on.
    [[nodiscard]] bool begin_losing() const {
        if (!sync()) return false;
        // The image cannot grow, as the rest of its file system is taken.
        const int filler = ::open((backing() / "filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        const std::vector<char> bytes(1 << 20, 'x');
        for (std::size_t size = bytes.size(); filler >= 0 && size > 0;)
            if (::write(filler, bytes.data(), size) <= 0) size /= 2;
        if (filler >= 0) ::close(filler);
        return filler >= 0;
    }
    // The kernel writes the file back, as it does some time later, and forgets its pages, as it does for want of
    // memory.
    [[nodiscard]] bool forget(const std::filesystem::path& file) const {
        (void)sync();   // fails, as some of it is lost
        const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
        const bool done = descriptor >= 0 && ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0;
        if (descriptor >= 0) ::close(descriptor);
        return done;
    }

  private:
    [[nodiscard]] bool sync() const {
        const int descriptor = ::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const bool synced = descriptor >= 0 && ::syncfs(descriptor) == 0;
        if (descriptor >= 0) ::close(descriptor);
        return synced;
    }
    [[nodiscard]] std::filesystem::path backing() const { return root_ / "backing"; }
    [[nodiscard]] std::string image() const { return (backing() / "image").string(); }
    static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

    std::filesystem::path root_;
    std::string why_not_;
    bool backed_ = false, mounted_ = false;
};

}   // namespace forebay::test
