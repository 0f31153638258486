#include "recover/process_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/shell_word.h"
#include "ledger/ledger.h"
#include "log/scan.h"
#include "recover/trust.h"
#include "undo/undo_format.h"

namespace forebay::recover {

namespace {

class Judgement {
  public:
    Judgement(io::Directory& area, const std::string& name, ProcessDirectory& found)
        : area_(area), name_(name), found_(found) {}

    void look(const area::IsSeenRunning& is_seen) {
        const Status trusted = check_trusted(area_, name_, io::Facts::Kind::kDirectory);
        auto opened = trusted.code() == Code::kNotFound ? Result<std::unique_ptr<io::Directory>>(trusted)
                                                        : area_.open_directory(name_);
        if (opened.status().sys_errno() == ENOENT) return;
        if (lacks_resources(opened.status())) return leave_unknown(opened.status());
        if (!opened) {
            found_.state = is_seen(found_.process) ? ProcessDirectory::State::kLiving : ProcessDirectory::State::kDead;
            note(trusted ? opened.status() : trusted);
            found_.may_be_any = true;
            return;
        }
        directory_ = std::move(opened).value();
        if (const auto holder = directory_->holder_of(std::string(area::kAliveFile)); lacks_resources(holder.status()))
            return leave_unknown(holder.status());
        if (area::owner_is_alive(found_.process, *directory_, is_seen)) {
            found_.state = ProcessDirectory::State::kLiving;
            return;
        }
        found_.state = ProcessDirectory::State::kDead;
        note(trusted);
        read_log();
        read_journals();
        if (!all_read_) read_ledger();
        if (lacks_resources(found_.unread)) leave_unknown(found_.unread);
    }

  private:
    void leave_unknown(Status why) {
        found_.state = ProcessDirectory::State::kUnknown;
        found_.unread = std::move(why);
        found_.files.clear();
    }
    void note(const Status& why) {
        if (found_.unread.is_ok() && !why.is_ok()) found_.unread = why;
    }
    // An error after which some files of the log are unknown.
    void lost(const Status& why) {
        note(why);
        all_read_ = false;
    }

    // Untrusted files are not used, but name the files that they concern.
    Result<std::unique_ptr<io::File>> open(const std::string& name) {
        const Status trusted = check_trusted(*directory_, name, io::Facts::Kind::kFile);
        if (trusted.code() == Code::kNotFound) return trusted;
        note(trusted);
        return directory_->open_file(name, io::OpenMode::kRead);
    }

    void add(const io::Identity& identity, ProcessDirectory::File file) {
        const auto [from, to] = found_.files.equal_range(identity);
        const bool known = std::any_of(from, to, [&](const auto& each) {
            return file.born == log::Birth{} || each.second.born == file.born;
        });
        if (!known) found_.files.emplace(identity, std::move(file));
    }

    void read_log() {
        const auto log = open("log");
        if (log.status().code() == Code::kNotFound) return;
        if (!log) return lost(log.status());
        Status unread;
        const auto targets = log::scan_targets(*log.value(), &unread);
        if (!targets) return lost(targets.status());
        if (!unread) lost(unread);
        for (const log::OpenPayload& target : targets.value())
            add({target.device, target.inode}, {target.path, target.born});
    }

    void read_journals() {
        const auto names = directory_->list();
        if (!names) return lost(names.status());
        for (const std::string& name : names.value()) {
            if (!undo::log_of_undo(name)) continue;
            const auto journal = open(name);
            if (journal.status().code() == Code::kNotFound) continue;   // a recovery has just removed it
            if (!journal) {
                lost(journal.status());
                continue;
            }
            const auto bytes = journal.value()->size();
            if (bytes && bytes.value() < undo::kUndoFrontBytes) continue;   // incomplete, and nothing was written
            const auto header = undo::read_undo_header(*journal.value());
            if (!header) lost(header.status());
            else add({header.value().device, header.value().inode}, {header.value().path});
        }
    }

    // The ledger has the open files, if they were not too many. It proves nothing, so it comes last.
    void read_ledger() {
        const auto view = ledger::read_ledger(*directory_);
        found_.may_be_any = !view || view.value().files_without_slot > 0;
        if (!view) return;
        for (const ledger::FileCounters& file : view.value().files) add({file.device, file.inode}, {file.path});
    }

    io::Directory& area_;
    const std::string& name_;
    ProcessDirectory& found_;
    std::unique_ptr<io::Directory> directory_;
    bool all_read_ = true;
};

}   // namespace

bool lacks_resources(const Status& failure) noexcept {
    return failure.sys_errno() == EMFILE || failure.sys_errno() == ENFILE || failure.sys_errno() == ENOMEM;
}

ProcessDirectory judge(io::Directory& area, const std::string& name, const area::ProcessIdentity& owner,
                       const area::IsSeenRunning& is_seen) {
    ProcessDirectory found;
    found.path = area.name() + "/" + name;
    found.process = owner;
    Judgement(area, name, found).look(is_seen);
    return found;
}

bool ProcessDirectory::concerns(const io::Identity& identity, const log::Birth& file) const {
    const auto [from, to] = files.equal_range(identity);
    return std::any_of(from, to, [&](const auto& each) { return !each.second.born.differs(file); });
}

std::string ProcessDirectory::advice() const {
    const std::string word = shell_word(path);
    switch (unread.code()) {
        case Code::kPermissionDenied:
            return fmt::format("run `forebay recover` as the user that it belongs to, or make {} and what is in "
                               "it yours alone (chmod -R go-rwx). To give up what only this directory holds, run "
                               "`forebay discard {}` as that user",
                               path, word);
        case Code::kUnsupported:
            return fmt::format(
                "run `forebay recover` of the version that wrote it, or give up what only this directory holds: "
                "`forebay discard {}`",
                word);
        default:
            return fmt::format(
                "look with `forebay verify`, or give up what only this directory holds: `forebay discard {}`", word);
    }
}

}   // namespace forebay::recover
