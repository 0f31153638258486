#include "io/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace forebay::io {

namespace {

// Keeps the pages of destroyed files for new ones: tests make thousands of files, and the system takes longer to supply
// a page than a test takes to fill it. A late access to a destroyed file still faults. Thread-safe.
class Pages {
  public:
    // Returns kMemoryFileMax zero bytes, or null if the system has no address space left.
    static std::byte* take() noexcept {
        const std::lock_guard lock(mutex);
        while (count > 0) {
            const Part part = kept[--count];
            if (::mprotect(part.base, kMemoryFileMax, PROT_READ | PROT_WRITE) == 0) {
                std::memset(part.base, 0, part.used);
                return part.base;
            }
            ::munmap(part.base, kMemoryFileMax);
        }
        void* address = ::mmap(nullptr, kMemoryFileMax, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
    }
    // No byte beyond `used` was ever stored to.
    static void give_back(std::byte* base, std::uint64_t used) noexcept {
        const std::lock_guard lock(mutex);
        if (count < kept.size() && used <= kUsedMax && ::mprotect(base, kMemoryFileMax, PROT_NONE) == 0)
            kept[count++] = {base, used};
        else ::munmap(base, kMemoryFileMax);
    }

  private:
    struct Part {
        std::byte* base;
        std::uint64_t used;
    };
    static constexpr std::uint64_t kUsedMax = 1 << 20;
    static inline std::mutex mutex;
    static inline std::array<Part, 16> kept{};
    static inline std::size_t count = 0;
};

// Address space that is reserved once and never moved, so mappings stay valid while the file grows.
class Content {
  public:
    Content() : base_(Pages::take()) {}
    ~Content() {
        if (base_ != nullptr) Pages::give_back(base_, used);
    }
    Content(const Content&) = delete;
    Content& operator=(const Content&) = delete;

    const Identity identity{0, next_number()};
    std::mutex mutex;
    std::byte* const base_;
    std::uint64_t size = 0, used = 0;   // used: largest size or mapped end so far

  private:
    static std::uint64_t next_number() noexcept {
        static std::atomic<std::uint64_t> next{1};
        return next.fetch_add(1, std::memory_order_relaxed);
    }
};

// Another thread may store to a mapping of the file meanwhile, so each word is read with one atomic load.
void copy_while_stored_to(std::byte* to, std::byte* from, std::size_t count) noexcept {
    const auto take = [&]<class Word>(Word) {
        const Word word = std::atomic_ref<Word>(*reinterpret_cast<Word*>(from)).load(std::memory_order_relaxed);
        std::memcpy(to, &word, sizeof word);
        to += sizeof word;
        from += sizeof word;
        count -= sizeof word;
    };
    while (count > 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(std::uint64_t) != 0) take(std::uint8_t{});
    while (count >= sizeof(std::uint64_t)) take(std::uint64_t{});
    while (count > 0) take(std::uint8_t{});
}

class MemoryMapping final : public Mapping {
  public:
    MemoryMapping(std::shared_ptr<Content> content, MutableBytes bytes)
        : Mapping(bytes), content_(std::move(content)) {}
    void touch(MutableBytes) noexcept override {}
    bool present(Bytes) noexcept override { return true; }

  private:
    std::shared_ptr<Content> content_;
};

class MemoryFile final : public File {
  public:
    MemoryFile(std::string name, std::shared_ptr<Content> content, bool writable)
        : name_(std::move(name)), content_(std::move(content)), writable_(writable) {}

    const std::string& name() const noexcept override { return name_; }

    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        const std::lock_guard lock(content_->mutex);
        if (into.empty() || offset >= content_->size) return std::size_t{0};
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), content_->size - offset));
        copy_while_stored_to(into.data(), content_->base_ + offset, count);
        return count;
    }

    Status write_at(std::uint64_t offset, Bytes bytes) override {
        return write_gather_at(offset, std::span(&bytes, 1));
    }

    Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) override {
        FOREBAY_TRY(check_writable("write to", EBADF));
        const std::lock_guard lock(content_->mutex);
        for (const Bytes& piece : pieces) {
            if (piece.empty()) continue;   // an empty write beyond the end does not extend the file
            FOREBAY_TRY(check_room(offset, piece.size()));
            std::memcpy(content_->base_ + offset, piece.data(), piece.size());
            offset += piece.size();
            extend(offset);
        }
        return Status::ok();
    }

    Result<Identity> identity() override { return content_->identity; }

    Result<std::uint64_t> size() override {
        const std::lock_guard lock(content_->mutex);
        return content_->size;
    }

    Status resize(std::uint64_t size) override {
        FOREBAY_TRY(check_writable("set size of", EINVAL));
        const std::lock_guard lock(content_->mutex);
        FOREBAY_TRY(check_room(size, 0));
        if (size < content_->size) std::memset(content_->base_ + size, 0, content_->size - size);
        extend(size);
        content_->size = size;
        return Status::ok();
    }

    Status allocate(std::uint64_t offset, std::uint64_t length) override {
        FOREBAY_TRY(check_writable("allocate in", EBADF));
        const std::lock_guard lock(content_->mutex);
        FOREBAY_TRY(check_room(offset, length));
        extend(offset + length);
        return Status::ok();
    }

    Status punch(std::uint64_t offset, std::uint64_t length) override {
        FOREBAY_TRY(check_writable("punch a hole in", EBADF));
        const std::lock_guard lock(content_->mutex);
        if (offset < content_->size)
            std::memset(content_->base_ + offset, 0, std::min(length, content_->size - offset));
        return Status::ok();
    }

    Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) override {
        FOREBAY_TRY(check_writable("map", EACCES));
        FOREBAY_TRY(check_room(offset, length));
        const std::lock_guard lock(content_->mutex);
        content_->used = std::max(content_->used, offset + length);
        return std::unique_ptr<Mapping>(std::make_unique<MemoryMapping>(content_, MutableBytes(content_->base_ + offset,
                                                                                               length)));
    }

    Status sync() override { return Status::ok(); }

  private:
    void extend(std::uint64_t size) const noexcept {
        content_->size = std::max(content_->size, size);
        content_->used = std::max(content_->used, content_->size);
    }
    Status check_writable(const char* call, int error) const {
        return writable_ ? Status::ok() : Status::from_errno(error, fmt::format("{} {}", call, name_));
    }
    Status check_room(std::uint64_t offset, std::uint64_t length) const {
        if (content_->base_ != nullptr && length <= kMemoryFileMax && offset <= kMemoryFileMax - length)
            return Status::ok();
        return Status::from_errno(ENOSPC, fmt::format("write {} bytes at offset {} of {}", length, offset, name_));
    }

    std::string name_;
    std::shared_ptr<Content> content_;
    const bool writable_;
};

struct Node {
    std::map<std::string, std::shared_ptr<Content>> files;
    std::map<std::string, std::shared_ptr<Node>> directories;
    std::mutex mutex;
    std::condition_variable unlocked;
    bool locked = false, removed = false;
    std::map<std::string, std::size_t> kept_free;   // names, with the number of their keepers
    std::set<std::string> held;
};

class MemoryLock final : public Lock {
  public:
    void hold(std::shared_ptr<Node> node) noexcept { node_ = std::move(node); }
    ~MemoryLock() override {
        if (node_ == nullptr) return;
        const std::lock_guard lock(node_->mutex);
        node_->locked = false;
        node_->unlocked.notify_one();
    }

  private:
    std::shared_ptr<Node> node_;
};

class MemoryNameLock final : public Lock {
  public:
    void begin(std::shared_ptr<Node> node, std::string name, bool held) noexcept {
        node_ = std::move(node);
        name_ = std::move(name);
        held_ = held;
    }
    ~MemoryNameLock() override {
        if (node_ == nullptr) return;
        const std::lock_guard lock(node_->mutex);
        if (held_) node_->held.erase(name_);
        else if (--node_->kept_free[name_] == 0) node_->kept_free.erase(name_);
    }

  private:
    std::shared_ptr<Node> node_;
    std::string name_;
    bool held_ = false;
};

class MemoryDirectory final : public Directory {
  public:
    MemoryDirectory(std::string name, std::shared_ptr<Node> node) : name_(std::move(name)), node_(std::move(node)) {}

    const std::string& name() const noexcept override { return name_; }

    Result<std::unique_ptr<File>> open_file(const std::string& name, OpenMode mode) override {
        const std::lock_guard lock(node_->mutex);
        auto found = node_->files.find(name);
        if (mode == OpenMode::kCreateNew) {
            if (node_->removed) return failure(ENOENT, "open", name);
            if (found != node_->files.end() || node_->directories.contains(name)) return failure(EEXIST, "open", name);
            found = node_->files.emplace(name, std::make_shared<Content>()).first;
        }
        if (found == node_->files.end())
            return failure(node_->directories.contains(name) ? EISDIR : ENOENT, "open", name);
        return std::unique_ptr<File>(std::make_unique<MemoryFile>(name_ + "/" + name, found->second,
                                                                  mode != OpenMode::kRead));
    }

    Result<std::unique_ptr<Directory>> create_directory(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        if (node_->files.contains(name) || node_->directories.contains(name))
            return failure(EEXIST, "create directory", name);
        if (node_->removed) return failure(ENOENT, "create directory", name);
        return handle(name, node_->directories.emplace(name, std::make_shared<Node>()).first->second);
    }

    Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        const auto found = node_->directories.find(name);
        if (found == node_->directories.end())
            return failure(node_->files.contains(name) ? ENOTDIR : ENOENT, "open directory", name);
        return handle(name, found->second);
    }

    Status remove_file(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        if (node_->files.erase(name) == 0)
            return failure(node_->directories.contains(name) ? EISDIR : ENOENT, "remove", name);
        return Status::ok();
    }

    Status remove_directory(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        const auto found = node_->directories.find(name);
        if (found == node_->directories.end())
            return failure(node_->files.contains(name) ? ENOTDIR : ENOENT, "remove directory", name);
        if (!found->second->files.empty() || !found->second->directories.empty())
            return failure(ENOTEMPTY, "remove directory", name);
        {
            const std::lock_guard inner(found->second->mutex);
            found->second->removed = true;
        }
        node_->directories.erase(found);
        return Status::ok();
    }

    Result<std::vector<std::string>> list() override {
        const std::lock_guard lock(node_->mutex);
        std::vector<std::string> names;
        for (const auto& [name, content] : node_->files) names.push_back(name);
        for (const auto& [name, node] : node_->directories) names.push_back(name);
        std::sort(names.begin(), names.end());
        return names;
    }

    Status sync() override { return Status::ok(); }

    Result<Facts> facts(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        const Facts directory{Facts::Kind::kDirectory, ::geteuid(), 0700, 0};
        if (name == "." || node_->directories.contains(name)) return directory;
        if (node_->files.contains(name)) return Facts{Facts::Kind::kFile, ::geteuid(), 0600, 0};
        return failure(ENOENT, "stat", name);
    }

    Result<std::unique_ptr<Lock>> lock(Patience patience) override {
        std::unique_lock lock(node_->mutex);
        const auto is_free = [this] { return !node_->locked; };
        if (patience.at_most) (void)node_->unlocked.wait_for(lock, *patience.at_most, is_free);
        else node_->unlocked.wait(lock, is_free);
        if (node_->locked)
            return Status(Code::kUnavailable, "lock " + name_ + ": another process holds it", EWOULDBLOCK, true);
        auto made = std::make_unique<MemoryLock>();   // before the lock: without memory it stays free
        node_->locked = true;
        made->hold(node_);
        return std::unique_ptr<Lock>(std::move(made));
    }

    Result<std::unique_ptr<Lock>> hold(const std::string& name) override { return lock_name(name, true); }
    Result<std::unique_ptr<Lock>> keep_free(const std::string& name) override { return lock_name(name, false); }
    Result<Holder> holder_of(const std::string& name) override {
        const std::lock_guard lock(node_->mutex);
        if (node_->held.contains(name)) return Holder::kSomebody;
        const auto found = node_->files.find(name);
        if (found == node_->files.end()) return Holder::kUntold;
        const auto bytes = MemoryFile(name, found->second, false).size();
        if (!bytes) return bytes.status();
        return bytes.value() > 0 ? Holder::kNobody : Holder::kUntold;
    }

  private:
    Result<std::unique_ptr<Lock>> lock_name(const std::string& name, bool held) {
        const std::lock_guard lock(node_->mutex);
        if (node_->removed) return failure(ENOENT, "open", name);
        if (node_->held.contains(name) || (held && node_->kept_free.contains(name)))
            return Status(Code::kUnavailable, "another process", EBUSY, true);
        auto made = std::make_unique<MemoryNameLock>();
        const auto found = node_->files.find(name);
        const auto content = found != node_->files.end()
                                 ? found->second
                                 : node_->files.emplace(name, std::make_shared<Content>()).first->second;
        std::string own(name);
        if (held) {
            FOREBAY_TRY(MemoryFile(name, content, true).resize(1));
            node_->held.insert(name);
        } else {
            ++node_->kept_free[name];
        }
        made->begin(node_, std::move(own), held);   // without memory the lock was not taken
        return std::unique_ptr<Lock>(std::move(made));
    }
    std::unique_ptr<Directory> handle(const std::string& name, std::shared_ptr<Node> node) const {
        return std::make_unique<MemoryDirectory>(name_ + "/" + name, std::move(node));
    }
    Status failure(int error, const char* call, const std::string& name) const {
        return Status::from_errno(error, fmt::format("{} {}/{}", call, name_, name));
    }

    std::string name_;
    std::shared_ptr<Node> node_;
};

}   // namespace

std::unique_ptr<File> make_memory_file(std::string name) {
    return std::make_unique<MemoryFile>(std::move(name), std::make_shared<Content>(), true);
}

std::unique_ptr<Directory> make_memory_directory(std::string name) {
    return std::make_unique<MemoryDirectory>(std::move(name), std::make_shared<Node>());
}

}   // namespace forebay::io
