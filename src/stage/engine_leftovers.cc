// What other processes have left of a file, or claim now.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/checksum.h"
#include "cache/small_copy.h"
#include "io/path.h"
#include "io/process_lock.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// So long a process is waited for that may be ending, and cannot be seen.
constexpr std::uint64_t kMayBeEndingNs = 2'000'000'000;
// For ever, with patience=0.
constexpr std::uint64_t kForEverNs = 31'536'000'000'000'000;   // a year

using recover::Leftovers;
using Why = Leftovers::Unsettled::Why;

std::string in_words(const Leftovers::Unsettled& found, const std::string& path) {
    const std::uint64_t pid = found.process.pid;
    switch (found.why) {
        case Why::kEnding:
            return fmt::format(
                "{}: process {} is ending, and may still write to it: a call of it has not returned. Open "
                "the file again once the process has gone",
                path, pid);
        case Why::kLeft:
            return fmt::format("{}: process {} has closed it with bytes that it could not write, and may still write "
                               "some of them: they are in {}. `forebay recover` writes them once the process has ended",
                               path, pid, found.directory);
        case Why::kUntold: break;
    }
    return fmt::format(
        "{}: process {} has it open for writing, without a lock, and cannot be seen from here: it may be "
        "ending, or in another container. Open the file again once the process has closed it",
        path, pid);
}

}   // namespace

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
    return io::Claim::make(folder, fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode,
                                               checksum(std::as_bytes(std::span(node)))));
}

// Who recovers a file may be stuck in it.
io::Directory::Patience Engine::State::patience_with_others() const noexcept {
    const std::uint64_t patience_ns = drain::patience_ns(loaded_.options);
    return patience_ns == 0 ? io::Directory::Patience::kWait
                            : io::Directory::Patience{progress_.clock().sleep_max(patience_ns)};
}

// A reader that does not open its file has no lock of it, either.
bool Engine::State::may_be_staged(const io::Identity& identity, const std::string& path) {
    if (const auto own = find(identity); own != nullptr && !only_read(*own)) return true;
    {
        const std::lock_guard lock(mutex_);
        if (closes_under_way_.contains(identity)) return true;
    }
    if (registers_)
        if (const auto closing = io::Claim::is_held(closing_folder(), closing_name(identity));
            !closing || closing.value())
            return true;
    const std::lock_guard looking(looking_);
    return leftovers_.may_be_staged(identity, path);
}

std::shared_ptr<cache::LeasedFile> Engine::State::leased(const std::string& name) noexcept {
    std::shared_ptr<cache::LeasedFile> found;
    if (!read_cache_.has_leases() || loaded_.options.forwards() || inherited() || ended()) return found;
    const Status looked = attempt([&] {
        found = read_cache_.leased(io::complete_path(name));
        if (found != nullptr && may_be_staged(found->lease.version.identity, found->path)) found.reset();
    });
    return looked ? found : nullptr;
}

void Engine::State::removes(const std::string& name) noexcept {
    if (read_cache_.has_leases()) (void)attempt([&] { read_cache_.drop_lease(io::complete_path(name)); });
}

// ---- what others have left ---------------------------------------------------------------------------

bool Engine::State::looks_for_leftovers() const noexcept { return loaded_.options.stage && !inherited(); }

// Without `looking_` while it waits: others of this process may look meanwhile.
Result<std::string> Engine::State::await_settled(const OpenedFile& file) {
    const std::uint64_t patience_ns = drain::patience_ns(loaded_.options);
    WaitClock& clock = progress_.clock();
    const std::uint64_t begin_ns = clock.now_ns();
    const auto self = area::identify_this_process();
    for (;;) {
        const auto looked = [&] {
            const std::lock_guard looking(looking_);
            return leftovers_.unsettled(file.identity, file.locked);
        }();
        if (!looked) return looked.status().with_context(file.path);
        if (!looked.value()) return std::string();
        const Leftovers::Unsettled& found = *looked.value();
        std::uint64_t at_most_ns = patience_ns == 0 ? kForEverNs : patience_ns;
        if (found.why == Why::kUntold) at_most_ns = std::min(at_most_ns, kMayBeEndingNs);
        // An engine of this process that was given up ends; another process keeps what it has left as long as it lives.
        if (found.why == Why::kLeft && !(self && found.process == self.value())) at_most_ns = 0;
        const std::uint64_t end_ns = begin_ns + at_most_ns, now_ns = clock.now_ns();
        if (now_ns < end_ns) {
            const auto left = clock.sleep_max(end_ns - now_ns);
            (void)io::ProcessLock::await_end(found.directory, std::string(area::kAliveFile), left);
            continue;
        }
        // Two programs that write at once without locks are nothing that a reader has to pay for.
        if (found.why == Why::kUntold && !file.writable) return in_words(found, file.path);
        return Status(Code::kUnavailable, in_words(found, file.path), kUnsettled);
    }
}

Result<std::string> Engine::State::recover_before_open(const std::string& path, bool writable) {
    const auto identity = io::identify(path);
    if (!identity) return std::string();
    FOREBAY_TRY(await_closed(identity.value(), Before::kUse));
    auto recovered = recover_opened({identity.value(), path, writable});
    // Whoever only reads is told, and goes on.
    if (!recovered && !writable && recovered.status().retryable()) return recovered.status().message();
    return recovered;
}

Result<std::string> Engine::State::recover_opened(const OpenedFile& file) {
    if (!looks_for_leftovers() || find(file.identity) != nullptr) return std::string();
    const auto settled = await_settled(file);
    if (!settled) return settled;
    const std::lock_guard looking(looking_);
    if (!leftovers_.found_any()) return settled;   // neither the file nor the area is asked again
    const std::uint64_t owner = io::owner_of(file.path);
    const log::Birth born{io::born_ns(file.path), 0};
    const auto concerned = leftovers_.concern(file.identity, owner, born);
    if (!concerned) return concerned.status();
    auto done = concerned.value() ? recover_file_looking(file, born)
                                  : tell_of_stranded_looking(file.identity, file.path, born);
    if (!done) return done;
    if (concerned.value()) FOREBAY_TRY(refuse_unread_looking(file.identity, file.path, born));
    if (!settled.value().empty()) return settled;
    return tell_of_unread_looking(std::move(done).value());
}

// A directory that names the file, and cannot be used.
Status Engine::State::refuse_unread_looking(const io::Identity& identity, const std::string& path,
                                            const log::Birth& born) {
    const recover::ProcessDirectory* const unread = leftovers_.unread(identity, io::owner_of(path), born);
    if (unread == nullptr) return Status::ok();
    return {Code::kUnavailable,
            fmt::format("{}: process {} has died and left bytes of it in {}, which cannot be used: {}; {}", path,
                        unread->process.pid, unread->path, unread->unread.message(), unread->advice())};
}

Status Engine::State::admit_emptying(const std::string& path) {
    const auto identity = io::identify(path);
    if (!identity || !looks_for_leftovers()) return Status::ok();
    FOREBAY_TRY(await_settled({identity.value(), path, true}).status());
    const std::lock_guard looking(looking_);
    const auto concerned = leftovers_.concern(identity.value(), io::owner_of(path));
    return concerned && concerned.value() ? refuse_unread_looking(identity.value(), path) : concerned.status();
}

// Of directories of which nobody can tell what they hold; each is told, and counted, once.
Result<std::string> Engine::State::tell_of_unread_looking(std::string said) {
    for (const recover::ProcessDirectory& unread : leftovers_.new_unread()) {
        unread_.fetch_add(1, std::memory_order_relaxed);
        std::string text = unread.process.pid == 0
                               ? fmt::format("{}: which files dead processes have left bytes of cannot be told: {}",
                                             unread.path, unread.unread.message())
                               : fmt::format("{}: process {} has died, and which files it has left bytes of cannot be "
                                             "told: {}; {}",
                                             unread.path, unread.process.pid, unread.unread.message(), unread.advice());
        if (loaded_.options.strict) return Status(Code::kUnavailable, std::move(text));
        said += (said.empty() ? "" : "; ") + text;
    }
    return said;
}

Result<std::string> Engine::State::recover_file_looking(const OpenedFile& opened, const log::Birth& born) {
    if (opened.give_way) opened.give_way();
    const auto report = leftovers_.recover({opened.identity, opened.path, born}, opened.descriptor);
    const std::string whose = opened.path + ": a process that died had staged bytes of it";
    const auto refuse = [&](const Status& why, const std::string& advice, bool in_use = false) -> Result<std::string> {
        std::string text = fmt::format("{}, which cannot be recovered: {}{}", whose, why.message(),
                                       advice.empty() ? "" : "; " + advice);
        if (opened.writable || in_use) return Status(Code::kUnavailable, std::move(text), 0, in_use);
        return text;
    };
    if (!report) return refuse(report.status(), "");
    if (!report.value()) return std::string();
    const recover::FileReport& file = *report.value();
    switch (file.outcome) {
        case recover::Outcome::kRecovered:
            if (file.nodes > 1 || file.commit_sequence == 0)   // several nodes: nothing was held back for a commit
                return fmt::format("{}; those of this node are in it now ({} written){}{}", whose,
                                   format_size(file.bytes), recover::about_nodes(file).empty() ? "" : "; ",
                                   recover::about_nodes(file));
            if (file.uncommitted_bytes > 0)
                return fmt::format("{}; it is recovered ({} written), but {} had reached the file before their commit, "
                                   "for want of room: it may differ from its last flush there, check the file",
                                   whose, format_size(file.bytes), format_size(file.uncommitted_bytes));
            return fmt::format("{}; it is at its last flush now ({} written)", whose, format_size(file.bytes));
        case recover::Outcome::kRolledBack:
            if (file.uncommitted_bytes > 0)
                return fmt::format("{}, and never flushed; {} had reached the file, for want of room: it may differ "
                                   "there from what it was when it was opened, check the file",
                                   whose, format_size(file.uncommitted_bytes));
            return fmt::format("{}, and never flushed; it is as it was when it was opened", whose);
        case recover::Outcome::kComplete:
        case recover::Outcome::kDiscarded:
        case recover::Outcome::kGone: return std::string();
        case recover::Outcome::kRefused:
        case recover::Outcome::kWaiting:
        case recover::Outcome::kFailed: break;
    }
    return refuse(file.status, recover::advice(file), file.reason == recover::Reason::kInUse);
}

// Its old state must not pass for the newest one.
Result<std::string> Engine::State::tell_of_stranded_looking(const io::Identity& identity, const std::string& path,
                                                            const log::Birth& born) {
    const std::string directory = leftovers_.stranded(identity, path, born);
    if (directory.empty()) return std::string();
    stranded_.fetch_add(1, std::memory_order_relaxed);
    std::string text = fmt::format(
        "{}: a process that died has left a log of a file of this name, with another identity, "
        "in {}; what the log holds is not in this file. If its file system was mounted again, "
        "`forebay recover --accept-moved {}`; if the file was replaced, `forebay discard {}`",
        path, directory, path, directory);
    if (loaded_.options.strict) return Status(Code::kUnavailable, std::move(text));
    return text;
}

Status Engine::State::may_forget(const io::Identity& identity, const std::string& path) {
    if (!looks_for_leftovers()) return Status::ok();
    FOREBAY_TRY(await_settled({identity, path, true}).status());
    const std::lock_guard looking(looking_);
    const auto concerned = leftovers_.concern(identity, io::owner_of(path));
    if (!concerned || !concerned.value()) return concerned.status();
    FOREBAY_TRY(leftovers_.void_log({identity, path}, true)
                    .with_context(path + ": a process that died has left a log of it, which cannot be removed"));
    return refuse_unread_looking(identity, path);
}

Status Engine::State::forget_before(const io::Identity& identity, const std::string& path, bool open_here) {
    {
        const std::lock_guard lock(mutex_);
        read_around_.erase(identity);   // nothing is where it was
    }
    if (!looks_for_leftovers()) return Status::ok();
    if (!open_here && find(identity) != nullptr) return Status::ok();
    FOREBAY_TRY(await_settled({identity, path, true}).status());
    const std::lock_guard looking(looking_);
    const auto concerned = leftovers_.concern(identity, io::owner_of(path));
    if (!concerned || !concerned.value()) return concerned.status();
    FOREBAY_TRY(leftovers_.void_log({identity, path})
                    .with_context(path + ": a process that died has left a log of it, which cannot be removed"));
    return refuse_unread_looking(identity, path);
}

}   // namespace forebay::stage
