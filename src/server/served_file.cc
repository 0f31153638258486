// One file of a staging server (served_files.h), from its attachment to its end.
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "base/attempt.h"
#include "server/opening.h"
#include "server/served_files.h"

namespace forebay::server {

ServedFile::ServedFile(ServedFiles& files, io::Identity identity, std::string path) noexcept
    : files_(files), identity_(identity), path_(std::move(path)) {}

ServedFile::~ServedFile() {
    if (!ended_) {
        {
            const std::lock_guard lock(files_.mutex_);
            files_.open_.at(identity_).sessions = 0;
        }
        (void)attempt([&] { return abandon().status(); });
    }
    end_engine();   // also if nothing was attached, or memory was lacking to abandon it
    writers_.reset();
    descriptor_.reset();
    if (entered_) leave();
}

bool ServedFile::end_session() noexcept {
    {
        std::unique_lock lock(files_.mutex_);
        ServedFiles::Written& written = files_.open_.at(identity_);
        if (written.sessions > 0 && --written.sessions > 0) return false;
        ended_ = true;
        written.ends = true;
        written.file = nullptr;
        files_.left_.wait(lock, [&] { return written.copying == 0; });
    }
    files_.left_.notify_all();
    return true;
}

Status ServedFile::incomplete() const {
    const std::lock_guard lock(failing_);
    return incomplete_;
}

Status ServedFile::failure() const {
    const std::lock_guard lock(failing_);
    return incomplete_ ? failure_ : incomplete_;
}

void ServedFile::fail(const Status& why) noexcept {
    const std::lock_guard lock(failing_);
    if (failure_) failure_ = copy_of(why, "request failed");
}

void ServedFile::leave() noexcept {
    if (noted_) files_.last_writers_.ended(identity_, *noted_);
    {
        const std::lock_guard lock(files_.mutex_);
        files_.open_.erase(identity_);
    }
    files_.left_.notify_all();
}

std::string ServedFile::log_directory() const {
    const io::Directory* const directory = engine_->area().directory();
    return directory != nullptr ? directory->name() : std::string();
}

Status ServedFile::commit() {
    const Status committed = file_->commit();
    observers_->committed(*file_);   // a commit whose drain failed is in the log
    if (!committed) observers_->failed();
    return committed;
}

Status ServedFile::close() {
    if (!end_session()) return Status::ok();
    // Another session may have ended without a close since the request arrived.
    Status outcome = incomplete();
    if (outcome) {
        (void)commit();   // `detach` returns a failure again
        outcome = failure();
        detached_ = true;
        if (const Status closed = engine_->detach(file_, true); outcome) outcome = closed;
    }
    if (outcome) {
        file_ = nullptr;
        end_engine();
        writers_->closed();
    } else {
        observers_->failed();
    }
    observers_->ended(outcome ? wire::Commits::Writer::kClosed : wire::Commits::Writer::kGone);
    return outcome;
}

void ServedFile::mark_failed() noexcept {
    {
        const std::lock_guard lock(files_.mutex_);
        files_.open_.at(identity_).failed = true;
    }
    files_.left_.notify_all();
}

Result<std::string> ServedFile::abandon() {
    {
        const std::lock_guard lock(failing_);
        if (incomplete_)
            incomplete_ = {Code::kUnavailable, "another client that writes the file ended without closing it"};
    }
    return ended_ || end_session() ? bring_back() : std::string();
}

void ServedFile::end_engine() noexcept {
    file_ = nullptr;
    if (engine_ == nullptr) return;
    engine_->await_rest();
    engine_.reset();
}

// The lock comes first: the server writes the file until its engine is idle. A dying process may end its connection
// before its locks. Without this wait, a reader could take the lock meanwhile, and wait for this server with it.
Result<std::string> ServedFile::bring_back() {
    if (engine_ == nullptr || file_ == nullptr) return std::string();
    const bool has_lock = writers_->gone(kEndsItsLocks);
    if (!std::exchange(detached_, true)) {
        file_->lifecycle().withhold({Code::kUnavailable, "the client ended without closing it", ECONNRESET});
        (void)engine_->detach(file_, true);
        observers_->ended(wire::Commits::Writer::kGone);
    }
    end_engine();
    // The client may live, and have the file locked. It then reconnects, and recovery waits for that.
    {
        const std::lock_guard lock(files_.mutex_);
        files_.unrecovered_.insert(identity_);   // until recovery succeeds
    }
    if (!has_lock && !writers_->gone())
        return fmt::format(
            "{}: another process has it locked; its staged bytes stay in the staging area until the next open, or "
            "until `forebay recover`",
            path_);
    const auto fresh = stage::Engine::create(files_.options_);
    auto recovered = fresh->leftovers().recover_opened({identity_, path_, true, true, descriptor_});
    if (recovered) files_.forget_unrecovered(identity_);
    return recovered;
}

}   // namespace forebay::server
