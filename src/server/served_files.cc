#include "server/served_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/attempt.h"
#include "io/made_file.h"
#include "io/open_existing.h"
#include "io/posix_file.h"

namespace forebay::server {

namespace {

// A client may have died, or be about to close the file, and its session not know yet. So long that is waited for; and
// so long what a session does at its end, which the file's own target may delay.
constexpr std::chrono::seconds kUnknown{5}, kEnding{600};

}   // namespace

ServedFile::ServedFile(ServedFiles& files, io::Identity identity, std::string path) noexcept
    : files_(files), identity_(identity), path_(std::move(path)) {}

ServedFile::~ServedFile() {
    if (!ended_) (void)attempt([&] { return abandon().status(); });
    leave();
}

void ServedFile::begin_end() noexcept {
    ended_ = true;
    {
        const std::lock_guard lock(files_.mutex_);
        files_.open_[identity_] = true;
    }
    files_.left_.notify_all();
}

void ServedFile::leave() noexcept {
    {
        const std::lock_guard lock(files_.mutex_);
        files_.open_.erase(identity_);
    }
    files_.left_.notify_all();
}

Status ServedFile::close() {
    begin_end();
    const Status closed = engine_->detach(std::exchange(file_, nullptr), true);
    engine_.reset();
    return closed;
}

Result<std::string> ServedFile::abandon() {
    begin_end();
    if (engine_ == nullptr || file_ == nullptr) return std::string();
    file_->withhold({Code::kUnavailable, "the client has ended without closing it", ECONNRESET});
    const Status detached = engine_->detach(std::exchange(file_, nullptr), true);
    engine_.reset();   // its directory is a dead one's now, if anything is left in it
    auto fresh = stage::Engine::create(files_.options_);
    return fresh->recover_opened({identity_, path_, true, true, descriptor_});
}

Status ServedFiles::enter(const io::Identity& identity, const std::string& path) {
    std::unique_lock lock(mutex_);
    const auto left = [&] { return !open_.contains(identity); };
    const auto ends = [&] { return left() || open_.at(identity); };
    if (!left_.wait_for(lock, kUnknown, ends) || !left_.wait_for(lock, kEnding, left))
        return {Code::kUnavailable, fmt::format("open {}: another client writes it", path), EBUSY};
    open_.emplace(identity, false);
    return Status::ok();
}

Result<std::unique_ptr<ServedFile>> ServedFiles::open(const wire::Open& request) {
    auto opened = io::open_existing(request.path);
    if (!opened) return Status(Code::kUnsupported, opened.status().message(), opened.status().sys_errno());
    if (opened.value().identity != request.identity)
        return Status(Code::kUnsupported, fmt::format("{}: the server finds another file there", request.path));
    FOREBAY_TRY(enter(request.identity, request.path));
    std::unique_ptr<ServedFile> served(new ServedFile(*this, request.identity, request.path));
    served->ended_ = true;   // until it is attached
    served->descriptor_ = std::move(opened.value().descriptor);
    FOREBAY_TRY(attach(*served, request));
    served->ended_ = false;
    return served;
}

Status ServedFiles::attach(ServedFile& served, const wire::Open& request) {
    served.engine_ = stage::Engine::create(options_);
    stage::Engine& engine = *served.engine_;
    if (const auto obstacle = engine.obstacle()) return {Code::kUnavailable, obstacle->status.message()};
    stage::OpenTarget target{io::make_posix_file(served.descriptor_, served.path_), true};
    if (request.empty) {
        FOREBAY_TRY(engine.may_forget(served.identity_, served.path_));
        target.prepare = [&]() -> Status {
            FOREBAY_TRY(io::empty(*served.descriptor_, served.path_));
            return engine.forget_before(served.identity_, served.path_, true);
        };
    } else {
        // The client has it locked, or nobody has: with that lock it is brought home.
        const auto recovered = engine.recover_opened({served.identity_, served.path_, true, request.locked,
                                                      served.descriptor_});
        if (!recovered) return recovered.status();
    }
    auto attached = engine.attach(std::move(target));
    if (!attached) return attached.status();
    served.file_ = std::move(attached.value().file);
    return Status::ok();
}

}   // namespace forebay::server
