#include "stage/leftovers.h"

#include <fmt/format.h>

#include <algorithm>

#include "area/process.h"
#include "base/shell_word.h"
#include "drain/patience.h"
#include "io/path.h"
#include "io/process_lock.h"

namespace forebay::stage {

namespace {

// How long a call waits for a process that may be ending, and cannot be seen.
constexpr std::uint64_t kMayBeEndingNs = 2'000'000'000;
constexpr std::uint64_t kForEverNs = 31'536'000'000'000'000;   // a year; with patience=0

using Unsettled = recover::Leftovers::Unsettled;
using Why = Unsettled::Why;

std::string in_words(const Unsettled& found, const std::string& path) {
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

// A process that recovers a file may be stuck in it.
io::Directory::Patience patience_with_others(const Options& options, WaitClock& clock) {
    const std::uint64_t patience_ns = drain::patience_ns(options);
    return patience_ns == 0 ? io::Directory::Patience::kWait : io::Directory::Patience{clock.sleep_max(patience_ns)};
}

}   // namespace

Leftovers::Leftovers(FileContext& context, FileTable& files, Statistics& statistics)
    : context_(context),
      files_(files),
      statistics_(statistics),
      found_([&options = context.options()] { return recover::find_area(options.nls); },
             [&options = context.options()] { return recover::find_areas_of_others(options.nls); },
             patience_with_others(context.options(), context.progress().clock())) {}

bool Leftovers::may_be_staged(const io::Identity& identity, const std::string& path) {
    const LockGuard looking(looking_);
    return found_.may_be_staged(identity, path);
}

std::uint64_t Leftovers::written_by_others(const io::Identity& identity) {
    const LockGuard looking(looking_);
    return found_.written_by_others(identity);
}

std::uint64_t Leftovers::listings() {
    const LockGuard looking(looking_);
    return found_.listings();
}

Result<std::string> Leftovers::await_settled(const OpenedFile& file) {
    const std::uint64_t patience_ns = drain::patience_ns(context_.options());
    return await_settled(file, patience_ns == 0 ? kForEverNs : patience_ns);
}

// Other threads of this process may look while one waits.
Result<std::string> Leftovers::await_settled(const OpenedFile& file, std::uint64_t patience_ns) {
    WaitClock& clock = context_.progress().clock();
    const std::uint64_t begin_ns = clock.now_ns();
    const auto self = area::identify_this_process();
    for (;;) {
        const auto looked = [&] {
            const LockGuard looking(looking_);
            return found_.unsettled(file.identity, file.locked);
        }();
        if (!looked) return looked.status().with_context(file.path);
        if (!looked.value()) return std::string();
        const Unsettled& found = *looked.value();
        std::uint64_t at_most_ns = patience_ns;
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

Result<std::string> Leftovers::recover_opened(OpenedFile file) {
    file.path = io::usable_path(file.path);
    if (!looks() || files_.find(file.identity) != nullptr) return std::string();
    const auto settled = await_settled(file);
    if (!settled) return settled;
    const LockGuard looking(looking_);
    if (!found_.found_any()) return settled;   // neither the file nor the area is asked again
    const std::uint64_t owner = io::owner_of(file.path);
    const log::Birth born{io::born_ns(file.path), 0};
    const auto concerned = found_.concern(file.identity, owner, born);
    if (!concerned) return concerned.status();
    auto done = concerned.value() ? recover_file(file, born) : tell_of_stranded(file, born);
    if (!done) return done;
    if (concerned.value()) FOREBAY_TRY(refuse_unread(file.identity, file.path, born));
    if (!settled.value().empty()) return settled;
    return tell_of_unread(std::move(done).value(), file.all_readable || context_.options().strict);
}

// A directory that names the file, and cannot be used.
Status Leftovers::refuse_unread(const io::Identity& identity, const std::string& path, const log::Birth& born) {
    const recover::ProcessDirectory* const unread = found_.unread(identity, io::owner_of(path), born);
    if (unread == nullptr) return Status::ok();
    return {Code::kUnavailable,
            fmt::format("{}: process {} has died and left bytes of it in {}, which cannot be used: {}; {}", path,
                        unread->process.pid, unread->path, unread->unread.message(), unread->advice())};
}

Status Leftovers::admit_emptying(const std::string& named) {
    const std::string path = io::usable_path(named);
    const auto identity = io::identify(path);
    if (!identity || !looks()) return Status::ok();
    FOREBAY_TRY(await_settled({identity.value(), path, true}).status());
    const LockGuard looking(looking_);
    const auto concerned = found_.concern(identity.value(), io::owner_of(path));
    return concerned && concerned.value() ? refuse_unread(identity.value(), path) : concerned.status();
}

// Tells, and counts, each directory once whose content is unknown. `fails`: that is an error.
Result<std::string> Leftovers::tell_of_unread(std::string said, bool fails) {
    for (const recover::ProcessDirectory& unread : found_.new_unread()) {
        statistics_.counters().unread.fetch_add(1, std::memory_order_relaxed);
        std::string text = unread.process.pid == 0
                               ? fmt::format("{}: cannot read which files dead processes left bytes of: {}",
                                             unread.path, unread.unread.message())
                               : fmt::format(
                                     "{}: cannot read which files process {} left bytes of when it died: {}; {}",
                                     unread.path, unread.process.pid, unread.unread.message(), unread.advice());
        if (fails) return Status(Code::kUnavailable, std::move(text));
        said += (said.empty() ? "" : "; ") + text;
    }
    return said;
}

Result<std::string> Leftovers::recover_file(const OpenedFile& opened, const log::Birth& born) {
    if (opened.give_way) opened.give_way();
    const auto report = found_.recover({opened.identity, opened.path, born}, opened.descriptor);
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
                                   "for lack of room: it may differ from its last flush there, check the file",
                                   whose, format_size(file.bytes), format_size(file.uncommitted_bytes));
            return fmt::format("{}; it is at its last flush now ({} written)", whose, format_size(file.bytes));
        case recover::Outcome::kRolledBack:
            if (file.uncommitted_bytes > 0)
                return fmt::format(
                    "{}, and never flushed; {} had reached the file, for lack of room: it may differ there from "
                    "its state at the open, check the file",
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
Result<std::string> Leftovers::tell_of_stranded(const OpenedFile& opened, const log::Birth& born) {
    const std::string directory = found_.stranded(opened.identity, opened.path, born);
    if (directory.empty()) return std::string();
    statistics_.counters().stranded.fetch_add(1, std::memory_order_relaxed);
    std::string text = fmt::format(
        "{}: a process that died has left a log of a file of this name, with another identity, "
        "in {}; what the log holds is not in this file. If its file system was mounted again, "
        "`forebay recover --accept-moved {}`; if the file was replaced, `forebay discard {}`",
        opened.path, directory, shell_word(opened.path), shell_word(directory));
    if (context_.options().strict) return Status(Code::kUnavailable, std::move(text));
    return text;
}

Status Leftovers::may_forget(const io::Identity& identity, const std::string& path) {
    if (const auto known = files_.find(identity); known != nullptr && known->lifecycle().failed())
        return {Code::kUnavailable,
                fmt::format("open {}: closed with bytes that could not be written; they are in the staging log", path)};
    return looks() ? give_up(identity, io::usable_path(path), true) : Status::ok();
}

Status Leftovers::forget_before(const io::Identity& identity, const std::string& path, bool open_here) {
    files_.given_addresses().forget(identity);
    if (!looks() || (!open_here && files_.find(identity) != nullptr)) return Status::ok();
    return give_up(identity, io::usable_path(path), false);
}

// `only_ask`: whether that could be done.
Status Leftovers::give_up(const io::Identity& identity, const std::string& path, bool only_ask) {
    FOREBAY_TRY(await_settled({identity, path, true}).status());
    const LockGuard looking(looking_);
    const auto concerned = found_.concern(identity, io::owner_of(path));
    if (!concerned || !concerned.value()) return concerned.status();
    FOREBAY_TRY(found_.void_log({identity, path}, only_ask)
                    .with_context(path + ": a process that died has left a log of it, which cannot be removed"));
    return refuse_unread(identity, path);
}

}   // namespace forebay::stage
