#include "recover/file_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "recover/trust.h"

namespace forebay::recover {

namespace {

// Followed by the number of the process that has the lock.
constexpr std::string_view kHolder = "by-";

// The caller has the lock.
void forget_holders(io::Directory& directory, const std::string& but = {}) {
    const auto names = directory.list();
    if (!names) return;
    for (const std::string& name : names.value())
        if (name.starts_with(kHolder) && name != but) (void)directory.remove_file(name);
}

std::string whose(io::Directory& directory) {
    if (const auto names = directory.list())
        for (const std::string& name : names.value())
            if (name.starts_with(kHolder)) return "process " + name.substr(kHolder.size());
    return "another process";
}

}   // namespace

std::string FileLock::name(const io::Identity& identity) {
    return fmt::format("{}{:x}-{:x}", kFileLockPrefix, identity.device, identity.inode);
}

Result<FileLock::Held> FileLock::take(io::Directory& area, io::Directory::Patience patience) const {
    // A holder removes the directory at its end. If the locked one is gone, no file can be created in it: try again.
    for (;;) {
        auto made = area.create_directory(name_);
        if (!made && made.status().code() != Code::kAlreadyExists) return made.status();
        const Status trusted = check_trusted(area, name_, io::Facts::Kind::kDirectory);
        if (trusted.code() == Code::kNotFound) continue;
        if (!trusted) return trusted;
        auto directory = area.open_directory(name_);
        if (directory.status().code() == Code::kNotFound) continue;
        if (!directory) return directory.status();
        auto lock = directory.value()->lock(patience);
        if (io::has_holder(lock.status()))
            return Status(Code::kUnavailable, whose(*directory.value()) + " is recovering it", EWOULDBLOCK, true);
        if (!lock) return lock.status();
        const std::string self = fmt::format("{}{}", kHolder, ::getpid());
        const auto said = directory.value()->open_file(self, io::OpenMode::kCreateNew);
        if (said.status().code() == Code::kNotFound) continue;
        // Without room for the name, others cannot tell who holds it. The lock counts all the same.
        if (!said && said.status().code() != Code::kAlreadyExists && said.status().code() != Code::kNoSpace)
            return said.status();
        forget_holders(*directory.value(), self);
        return Held{&area, std::move(directory).value(), std::move(lock).value()};
    }
}

Result<FileLock> FileLock::take(std::span<io::Directory* const> areas, const io::Identity& identity,
                                io::Directory::Patience patience, FullArea full) {
    FileLock self(name(identity));
    // All processes lock in one order, so none wait for each other.
    std::vector<io::Directory*> ordered(areas.begin(), areas.end());
    std::sort(ordered.begin(), ordered.end(),
              [](const io::Directory* one, const io::Directory* other) { return one->name() < other->name(); });
    for (io::Directory* const area : ordered) {
        FOREBAY_TRY(check_trusted(*area, ".", io::Facts::Kind::kDirectory));
        auto held = self.take(*area, patience);
        if (held.status().code() == Code::kNoSpace && full == FullArea::kPassedOver) continue;
        if (!held) return held.status();
        self.held_.push_back(std::move(held).value());
    }
    return self;
}

FileLock::~FileLock() {
    try {
        for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
            forget_holders(*held->directory);
            (void)held->area->remove_directory(name_);
        }
    } catch (const std::bad_alloc&) {
        // As after a kill: the lock ends, and the next holder removes the rest.
    }
}

void remove_dead_file_locks(io::Directory& area) {
    const auto names = area.list();
    if (!names) return;
    for (const std::string& name : names.value()) {
        if (!name.starts_with(kFileLockPrefix) || !check_trusted(area, name, io::Facts::Kind::kDirectory)) continue;
        const auto directory = area.open_directory(name);
        if (!directory) continue;
        const auto lock = directory.value()->lock(io::Directory::Patience::kTry);
        if (!lock) continue;
        forget_holders(*directory.value());
        (void)area.remove_directory(name);
    }
}

}   // namespace forebay::recover
