#include "recover/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/clock.h"
#include "recover/ending.h"
#include "recover/trust.h"

namespace forebay::recover {

namespace {

// A change within one tick of the file system's clock after a listing may not show. Far more than a tick.
constexpr std::uint64_t kTickNs = 50'000'000;

}   // namespace

void Leftovers::note(Area& area, const std::string& name, const area::ProcessIdentity& owner) {
    ProcessDirectory found = judge(*area.directory, name, owner);
    if (found.state == ProcessDirectory::State::kUnknown) note_failure(found.path, found.unread);
    if (found.state == ProcessDirectory::State::kLiving || found.state == ProcessDirectory::State::kUnknown)
        area.living[name] = owner;   // look again
    if (found.state != ProcessDirectory::State::kDead) return;
    if (!area.is_ours && found.unread.is_ok())
        found.unread = check_trusted(*area.directory, ".", io::Facts::Kind::kDirectory);
    area.dead[name] = std::move(found);
}

void Leftovers::note_failure(const std::string& path, const Status& why) {
    if (why.is_ok() || why.sys_errno() == ENOENT || why.sys_errno() == ENOTDIR) return;
    if (lacks_resources(why)) {
        if (lacking_) lacking_ = why.with_context("look what dead processes have left in " + path);
        return;
    }
    ProcessDirectory unseen;
    unseen.path = path;
    unseen.unread = why;
    unseen_.push_back(std::move(unseen));
}

bool Leftovers::look_into(Area& area) {
    const auto facts = area.directory->facts(".");
    const bool unchanged = facts && area.seen_change_ns != 0 && facts.value().modified_ns == area.seen_change_ns;
    const std::uint64_t now = unchanged ? 0 : realtime_ns();
    const auto names = unchanged ? Result<std::vector<std::string>>(std::vector<std::string>())
                                 : area.directory->list();
    if (!unchanged && facts && names) {
        ++listings_;
        // It changed just now, and may change again without a new time.
        area.seen_change_ns = facts.value().modified_ns + kTickNs < now ? facts.value().modified_ns : 0;
        const std::set<std::string> there(names.value().begin(), names.value().end());
        std::erase_if(area.dead, [&](const auto& known) { return !there.contains(known.first); });
        area.living.clear();
        for (const std::string& name : there)
            if (const auto owner = area::owner_of_directory(name); owner && !area.dead.contains(name))
                note(area, name, *owner);
        return true;
    }
    if (!unchanged) {
        area.seen_change_ns = 0;
        note_failure(area.directory->name(), facts ? names.status() : facts.status());
    }
    const auto living = std::move(area.living);
    area.living.clear();
    for (const auto& [name, owner] : living) {
        if (area::owner_is_alive(owner, area.directory->name() + "/" + name)) area.living[name] = owner;
        else note(area, name, owner);
    }
    return false;
}

void Leftovers::find_areas(bool others) {
    const auto add = [&](std::unique_ptr<io::Directory> directory) {
        if (std::any_of(areas_.begin(), areas_.end(),
                        [&](const Area& known) { return known.directory->name() == directory->name(); }))
            return;
        const auto facts = directory->facts(".");
        if (!facts) return note_failure(directory->name(), facts.status());
        const bool is_ours = check_trusted(*directory, ".", io::Facts::Kind::kDirectory).is_ok();
        directory->rest();   // keep no descriptor open
        areas_.push_back({std::move(directory), is_ours, facts.value().owner, 0, {}, {}});
    };
    if (!own_found_) {
        auto area = find_area_();
        if (!area) note_failure("the staging area", area.status());
        if (area && area.value() != nullptr) {
            own_found_ = true;
            others = true;
            add(std::move(area).value());
        }
    }
    if (others)
        for (auto& area : find_others_()) add(std::move(area));
}

Status Leftovers::look() {
    lacking_ = Status::ok();
    unseen_.clear();
    find_areas(areas_.empty() && !std::exchange(others_found_, true));
    bool listed = false;
    for (Area& area : areas_) listed = look_into(area) || listed;
    if (listed) {
        const std::size_t known = areas_.size();
        find_areas(true);
        for (std::size_t i = known; i < areas_.size(); ++i) (void)look_into(areas_[i]);
    }
    return lacking_;
}

const ProcessDirectory* Leftovers::find_dead(const io::Identity& identity, std::uint64_t owner, const log::Birth& born,
                                             bool only_unread) const {
    for (const Area& area : areas_) {
        if (area.owner != ::geteuid() && area.owner != owner) continue;
        for (const auto& [name, dead] : area.dead)
            if (dead.concerns(identity, born) && !(only_unread && dead.unread.is_ok())) return &dead;
    }
    return nullptr;
}

bool Leftovers::found_any() const noexcept {
    return !unseen_.empty() || std::ranges::any_of(areas_, [](const Area& area) { return !area.dead.empty(); });
}

Result<bool> Leftovers::concern(const io::Identity& identity, std::uint64_t owner, const log::Birth& born) {
    FOREBAY_TRY(look());
    return find_dead(identity, owner, born, false) != nullptr;
}

Result<std::optional<Leftovers::Unsettled>> Leftovers::unsettled(const io::Identity& identity, bool locked) {
    FOREBAY_TRY(look());
    const auto self = area::identify_this_process();
    for (const Area& area : areas_)
        for (const auto& [name, owner] : area.living) {
            const auto directory = area.directory->open_directory(name);
            // An abandoned engine of this process holds HDF5's lock while one of its writes may come.
            if (!directory && locked && self && owner == self.value()) continue;
            if (!directory && lacks_resources(directory.status())) return directory.status();
            if (!directory) continue;   // it has ended
            Unsettled found{Unsettled::Why::kLeft, owner, directory.value()->name()};
            if (self && owner == self.value()) {
                // Open files, which the log may name too, are open through another library or session.
                const auto own = ledger::file_use(*directory.value(), identity);
                if (!own && lacks_resources(own.status())) return own.status();
                if (own && own.value() == ledger::FileUse::kLeft) return std::optional(found);
                continue;
            }
            const auto use = use_of(*directory.value(), identity);
            if (!use && lacks_resources(use.status())) return use.status();
            if (use && use.value() == ledger::FileUse::kNone) continue;
            const area::Sight sight = area::sight_of(owner);
            if (sight == area::Sight::kEnding) found.why = Unsettled::Why::kEnding;
            else if (!use) continue;   // at work, with a ledger of another version
            else if (use.value() == ledger::FileUse::kOpen) {
                if (sight == area::Sight::kStaying || !locked) continue;
                found.why = Unsettled::Why::kUntold;
            }
            return std::optional(found);
        }
    return std::optional<Unsettled>();
}

// A process without a slot for the file in its ledger may write it, too.
std::uint64_t Leftovers::written_by_others(const io::Identity& identity) {
    (void)look();
    const auto self = area::identify_this_process();
    std::uint64_t written = 0;
    for (const Area& area : areas_)
        for (const auto& [name, owner] : area.living) {
            if (self && owner == self.value()) continue;
            const auto directory = area.directory->open_directory(name);
            const auto view = directory ? ledger::read_ledger(*directory.value()) : directory.status();
            if (!view) continue;
            const bool may_write = view.value().files_without_slot > 0 ||
                                   std::ranges::any_of(view.value().files, [&](const ledger::FileCounters& file) {
                                       return io::Identity{file.device, file.inode} == identity;
                                   });
            for (const ledger::FileCounters& file : view.value().files)
                if (may_write) written += file.drained + file.target_writes;
        }
    return written;
}

bool Leftovers::may_be_staged(const io::Identity& identity, const std::string& path) {
    if (!look() || found_any()) return true;
    for (const Area& area : areas_)
        for (const auto& [name, owner] : area.living) {
            const auto directory = area.directory->open_directory(name);
            if (!directory && lacks_resources(directory.status())) return true;
            if (!directory) continue;   // it has ended
            const auto use = use_of(*directory.value(), identity, path);
            if (!use || use.value() != ledger::FileUse::kNone) return true;
        }
    return false;
}

const ProcessDirectory* Leftovers::unread(const io::Identity& identity, std::uint64_t owner, const log::Birth& born) {
    (void)look();
    return find_dead(identity, owner, born, true);
}

std::vector<ProcessDirectory> Leftovers::new_unread() {
    std::vector<ProcessDirectory> found;
    for (const ProcessDirectory& area : unseen_)
        if (told_.insert(area.path).second) found.push_back(area);
    for (const Area& area : areas_)
        for (const auto& [name, dead] : area.dead)
            if (dead.may_be_any && area.owner == ::geteuid() && told_.insert(dead.path).second) found.push_back(dead);
    return found;
}

std::string Leftovers::stranded(const io::Identity& identity, const std::string& path, const log::Birth& born) {
    const auto name_of = [](const std::string& whole) { return std::string_view(whole).substr(whole.rfind('/') + 1); };
    for (const Area& area : areas_) {
        if (!area.is_ours) continue;
        for (const auto& [name, dead] : area.dead)
            for (const auto& [logged, file] : dead.files) {
                const bool other = file.born.differs(born);
                const bool same_name = file.path == path || (logged.inode == identity.inode && !other &&
                                                             name_of(file.path) == name_of(path));
                if ((logged != identity || other) && same_name) return dead.path;
            }
    }
    return {};
}

std::vector<io::Directory*> Leftovers::ours() const {
    std::vector<io::Directory*> directories;
    for (const Area& area : areas_)
        if (area.is_ours) directories.push_back(area.directory.get());
    return directories;
}

// Entries may be gone now.
void Leftovers::look_again() {
    for (Area& area : areas_) {
        area.dead.clear();
        area.seen_change_ns = 0;
    }
}

Result<std::optional<FileReport>> Leftovers::recover(const Wanted& file,
                                                     const std::shared_ptr<io::Descriptor>& descriptor) {
    auto outside = Outside::real(kOthersLook);
    if (!outside) return outside.status();
    if (descriptor != nullptr)
        outside.value().open_target = [descriptor](const std::string& path) {
            return io::existing_file(descriptor, path);
        };
    Request request;
    request.only = {file};
    request.unasked = true;
    request.patience = request.beside = patience_;
    const auto areas = ours();
    if (areas.empty()) return std::optional<FileReport>();
    auto report = recover::recover(areas, request, outside.value());
    look_again();
    if (!report) return report.status();
    if (report.value().files.empty()) return std::optional<FileReport>();
    // Nodes simulated on one machine have a report each. Unfinished work counts first, otherwise the sum.
    auto& files = report.value().files;
    // The log is of another file whose inode number was reused.
    std::erase_if(files, [](const FileReport& one) {
        return one.outcome == Outcome::kRefused && one.reason == Reason::kReplaced;
    });
    if (files.empty()) return std::optional<FileReport>();
    const auto undone = std::find_if(files.begin(), files.end(), [](const FileReport& one) {
        return one.outcome == Outcome::kRefused || one.outcome == Outcome::kWaiting || one.outcome == Outcome::kFailed;
    });
    if (undone != files.end()) return std::optional(*undone);
    // The weightiest report stands for all.
    const auto weight = [](const FileReport& one) {
        return one.outcome == Outcome::kRecovered ? 2 : one.outcome == Outcome::kRolledBack ? 1 : 0;
    };
    FileReport all = *std::max_element(files.begin(), files.end(), [&](const FileReport& one, const FileReport& other) {
        return weight(one) < weight(other);
    });
    all.bytes = 0;
    for (const FileReport& one : files) all.bytes += one.bytes;
    return std::optional(std::move(all));
}

Status Leftovers::void_log(const Wanted& file, bool only_ask) {
    const auto outside = Outside::real();
    if (!outside) return outside.status();
    Discarded request;
    request.files = {file};
    request.unasked = true;
    request.dry_run = only_ask;
    request.patience = request.beside = patience_;
    const auto areas = ours();
    if (areas.empty()) return Status::ok();
    const auto report = discard(areas, request, outside.value());
    look_again();
    if (!report) return report.status();
    for (const FileReport& left : report.value().files)
        if (left.outcome != Outcome::kDiscarded) return left.status;
    return Status::ok();
}

}   // namespace forebay::recover
