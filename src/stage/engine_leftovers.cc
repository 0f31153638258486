// What other processes have left of a file, or claim now.
#include <fmt/format.h>

#include <chrono>
#include <span>

#include "base/checksum.h"
#include "stage/engine_state.h"

namespace forebay::stage {

// ---- what others write now -----------------------------------------------------------------------------

// In a folder of their own: whoever looks for what dead processes have left looks when the area itself has changed.
Result<std::unique_ptr<io::Claim>> Engine::State::claim(const io::Identity& identity, const std::string& node) {
    if (const auto why = obstacle()) {   // whoever attaches a file says it
        if (loaded_.options.strict && loaded_.options.stage) return why->status;
        return std::unique_ptr<io::Claim>();
    }
    const std::lock_guard opening(opening_);
    const std::string folder = area_->name() + "/claims";
    if (!std::exchange(claims_looked_at_, true)) io::Claim::remove_leftovers(folder);
    return io::Claim::make(folder, fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode, checksum(std::as_bytes(std::span(node)))));
}

// Who recovers a file may be stuck in it.
io::Directory::Patience Engine::State::patience_with_others() const noexcept {
    const std::uint64_t patience = loaded_.options.patience;
    return patience == 0 ? io::Directory::Patience::kWait : io::Directory::Patience{std::chrono::seconds(patience)};
}

// ---- what others have left ---------------------------------------------------------------------------

Result<std::string> Engine::State::recover_before_open(const std::string& path, bool writable) {
    if (!loaded_.options.recover || !loaded_.options.stage || inherited()) return std::string();
    const auto identity = io::identify(path);
    if (!identity || find(identity.value()) != nullptr) return std::string();
    const std::lock_guard looking(looking_);
    if (!leftovers_.concern(identity.value())) return tell_of_stranded_looking(identity.value(), path);
    const auto report = leftovers_.recover({identity.value(), path});
    const std::string whose = path + ": a process that died had staged bytes of it";
    const auto refuse = [&](const Status& why, const std::string& advice, bool in_use = false) -> Result<std::string> {
        const std::string text = fmt::format("{}, which cannot be recovered: {}{}", whose, why.message(), advice.empty() ? "" : "; " + advice);
        if (writable) return Status(Code::kUnavailable, text, 0, in_use);
        return text;
    };
    if (!report) return refuse(report.status(), "");
    if (!report.value()) return std::string();
    const recover::FileReport& file = *report.value();
    switch (file.outcome) {
        case recover::Outcome::kRecovered:
            if (file.nodes > 1 || file.commit_sequence == 0)   // several nodes: nothing was held back for a commit
                return fmt::format("{}; those of this node are in it now ({} written){}{}", whose, format_size(file.bytes),
                                   recover::about_nodes(file).empty() ? "" : "; ", recover::about_nodes(file));
            return fmt::format("{}; it is at its last flush now ({} written)", whose, format_size(file.bytes));
        case recover::Outcome::kRolledBack: return fmt::format("{}, and never flushed; it is as it was when it was opened", whose);
        case recover::Outcome::kComplete:
        case recover::Outcome::kDiscarded: return std::string();
        case recover::Outcome::kRefused:
        case recover::Outcome::kWaiting:
        case recover::Outcome::kFailed: break;
    }
    return refuse(file.status, recover::advice(file), file.reason == recover::Reason::kInUse);
}

// Its old state must not pass for the newest one.
Result<std::string> Engine::State::tell_of_stranded_looking(const io::Identity& identity, const std::string& path) {
    const std::string directory = leftovers_.stranded(identity, path);
    if (directory.empty()) return std::string();
    stranded_.fetch_add(1, std::memory_order_relaxed);
    std::string text = fmt::format("{}: a process that died has left a log of a file of this name, with another identity, in {}; what the log holds is not in this file. "
                                   "If its file system was mounted again, `forebay recover --accept-moved {}`; if the file was replaced, `forebay discard {}`",
                                   path, directory, path, directory);
    if (loaded_.options.strict) return Status(Code::kUnavailable, std::move(text));
    return text;
}

Status Engine::State::forget_before(const io::Identity& identity, const std::string& path) {
    if (!loaded_.options.recover || !loaded_.options.stage || inherited()) return Status::ok();
    if (find(identity) != nullptr) return Status::ok();
    const std::lock_guard looking(looking_);
    if (!leftovers_.concern(identity)) return Status::ok();
    return leftovers_.void_log({identity, path}).with_context(path + ": a process that died has left a log of it, which cannot be removed");
}

}   // namespace forebay::stage
