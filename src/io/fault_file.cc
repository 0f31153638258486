#include "io/fault_file.h"

#include <fmt/format.h>

#include "base/attempt.h"

namespace forebay::io {

void FaultPlan::fail(Operation operation, std::uint64_t nth, std::uint64_t count, int sys_errno,
                     std::size_t bytes_done_first) {
    const std::lock_guard lock(mutex_);
    armed_ = true;
    any_ = false;
    operation_ = operation;
    nth_ = nth;
    count_ = count;
    seen_ = 0;
    verdict_ = {sys_errno, bytes_done_first};
}

void FaultPlan::fail_any(std::uint64_t nth, std::uint64_t count, int sys_errno, std::size_t bytes_done_first) {
    fail(Operation::kWrite, nth, count, sys_errno, bytes_done_first);
    const std::lock_guard lock(mutex_);
    any_ = true;
}

void FaultPlan::hang(Operation operation) {
    const std::lock_guard lock(mutex_);
    hangs_ = operation;
}

void FaultPlan::let_one_go() {
    const std::lock_guard lock(mutex_);
    ++passes_;
    hanging_changed_.notify_all();
}

void FaultPlan::let_go() {
    const std::lock_guard lock(mutex_);
    hangs_.reset();
    hanging_changed_.notify_all();
}

bool FaultPlan::await_hanging(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return hanging_changed_.wait_for(lock, at_most, [this] { return hanging_ > passes_; });
}

bool FaultPlan::hanging() const {
    const std::lock_guard lock(mutex_);
    return hangs_ && hanging_ > passes_;
}

void FaultPlan::clear() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
}

FaultPlan::Verdict FaultPlan::arrive(Operation operation) {
    std::unique_lock lock(mutex_);
    if (hangs_ == operation) {
        ++hanging_;
        hanging_changed_.notify_all();
        hanging_changed_.wait(lock, [&] { return hangs_ != operation || passes_ > 0; });
        if (hangs_ == operation) --passes_;
        --hanging_;
    }
    if (!armed_ || (!any_ && operation != operation_)) return {};
    ++seen_;
    if (seen_ < nth_ || seen_ - nth_ >= count_) return {};
    ++fired_;
    return verdict_;
}

std::uint64_t FaultPlan::fired() const {
    const std::lock_guard lock(mutex_);
    return fired_;
}

namespace {

class FaultFile final : public File {
  public:
    FaultFile(std::unique_ptr<File> file, std::shared_ptr<FaultPlan> plan)
        : file_(std::move(file)), plan_(std::move(plan)) {}

    const std::string& name() const noexcept override { return file_->name(); }

    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        FOREBAY_TRY(admit(Operation::kRead, "read"));
        return file_->read_at(offset, into);
    }

    Status write_at(std::uint64_t offset, Bytes bytes) override {
        return write_gather_at(offset, std::span(&bytes, 1));
    }

    Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) override {
        const auto verdict = plan_->arrive(Operation::kWrite);
        if (verdict.sys_errno == 0) return file_->write_gather_at(offset, pieces);
        std::size_t rest = verdict.bytes_done_first;
        for (const Bytes& piece : pieces) {
            if (rest == 0) break;
            const Bytes part = piece.first(std::min(rest, piece.size()));
            FOREBAY_TRY(file_->write_at(offset, part));
            offset += part.size();
            rest -= part.size();
        }
        return failed_call(verdict.sys_errno, [&] { return fmt::format("write at offset {} of {}", offset, name()); });
    }

    FileTraits traits() override { return file_->traits(); }
    Result<Identity> identity() override { return file_->identity(); }

    Result<std::uint64_t> size() override {
        FOREBAY_TRY(admit(Operation::kSize, "stat"));
        return file_->size();
    }

    Result<FileState> state(Ask ask) override { return file_->state(ask); }

    Status resize(std::uint64_t size) override {
        FOREBAY_TRY(admit(Operation::kResize, "resize"));
        return file_->resize(size);
    }

    Status allocate(std::uint64_t offset, std::uint64_t length) override {
        FOREBAY_TRY(admit(Operation::kAllocate, "allocate"));
        return file_->allocate(offset, length);
    }

    Status punch(std::uint64_t offset, std::uint64_t length) override {
        FOREBAY_TRY(admit(Operation::kPunch, "punch a hole in"));
        return file_->punch(offset, length);
    }

    Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) override {
        FOREBAY_TRY(admit(Operation::kMap, "map"));
        return file_->map(offset, length);
    }

    Status sync() override {
        FOREBAY_TRY(admit(Operation::kSync, "sync"));
        return file_->sync();
    }
    Status flush() override {
        FOREBAY_TRY(admit(Operation::kFlush, "close"));
        return file_->flush();
    }
    Status late_failure() override { return file_->late_failure(); }
    void begin_sync(std::uint64_t offset, std::uint64_t length) noexcept override { file_->begin_sync(offset, length); }
    void rest() noexcept override { file_->rest(); }

  private:
    Status admit(Operation operation, const char* call) {
        const auto verdict = plan_->arrive(operation);
        if (verdict.sys_errno == 0) return Status::ok();
        return failed_call(verdict.sys_errno, [&] { return fmt::format("{} {}", call, name()); });
    }

    std::unique_ptr<File> file_;
    std::shared_ptr<FaultPlan> plan_;
};

class FaultDirectory final : public Directory {
  public:
    FaultDirectory(std::unique_ptr<Directory> directory, std::shared_ptr<FaultPlan> plan)
        : directory_(std::move(directory)), plan_(std::move(plan)) {}

    const std::string& name() const noexcept override { return directory_->name(); }

    Result<std::unique_ptr<File>> open_file(const std::string& name, OpenMode mode) override {
        FOREBAY_TRY(admit(Operation::kOpen, "open", name));
        auto file = directory_->open_file(name, mode);
        if (!file) return file;
        return make_fault_file(std::move(file).value(), plan_);
    }

    Result<std::unique_ptr<Directory>> create_directory(const std::string& name) override {
        FOREBAY_TRY(admit(Operation::kCreateDirectory, "create directory", name));
        return wrapped(directory_->create_directory(name));
    }

    Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
        FOREBAY_TRY(admit(Operation::kOpen, "open directory", name));
        return wrapped(directory_->open_directory(name));
    }

    Status remove_file(const std::string& name) override {
        FOREBAY_TRY(admit(Operation::kRemove, "remove", name));
        return directory_->remove_file(name);
    }

    Status remove_directory(const std::string& name) override {
        FOREBAY_TRY(admit(Operation::kRemove, "remove directory", name));
        return directory_->remove_directory(name);
    }

    Result<std::vector<std::string>> list() override { return directory_->list(); }
    Status sync() override {
        const auto verdict = plan_->arrive(Operation::kSync);
        if (verdict.sys_errno == 0) return directory_->sync();
        return failed_call(verdict.sys_errno, [&] { return "sync " + name(); });
    }
    Result<Facts> facts(const std::string& name) override { return directory_->facts(name); }
    void rest() noexcept override { directory_->rest(); }
    Result<std::unique_ptr<Lock>> lock(Patience patience) override { return directory_->lock(patience); }
    Result<std::unique_ptr<Lock>> hold(const std::string& name) override { return directory_->hold(name); }
    Result<Holder> holder_of(const std::string& name) override { return directory_->holder_of(name); }
    Result<std::unique_ptr<Lock>> keep_free(const std::string& name) override { return directory_->keep_free(name); }

  private:
    Result<std::unique_ptr<Directory>> wrapped(Result<std::unique_ptr<Directory>> directory) {
        if (!directory) return directory;
        return make_fault_directory(std::move(directory).value(), plan_);
    }
    Status admit(Operation operation, const char* call, const std::string& name) {
        const auto verdict = plan_->arrive(operation);
        if (verdict.sys_errno == 0) return Status::ok();
        return Status::from_errno(verdict.sys_errno, fmt::format("{} {}/{}", call, directory_->name(), name));
    }

    std::unique_ptr<Directory> directory_;
    std::shared_ptr<FaultPlan> plan_;
};

}   // namespace

std::unique_ptr<File> make_fault_file(std::unique_ptr<File> file, std::shared_ptr<FaultPlan> plan) {
    return std::make_unique<FaultFile>(std::move(file), std::move(plan));
}

std::unique_ptr<Directory> make_fault_directory(std::unique_ptr<Directory> directory, std::shared_ptr<FaultPlan> plan) {
    return std::make_unique<FaultDirectory>(std::move(directory), std::move(plan));
}

}   // namespace forebay::io
