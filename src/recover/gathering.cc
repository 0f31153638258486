#include "recover/gathering.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/bytes.h"
#include "base/checksum.h"
#include "io/posix_file.h"

namespace forebay::recover {

namespace {

constexpr std::string_view kMember = "member-", kDone = "done", kBegun = "begun";
constexpr std::size_t kCopyBytes = 1 << 20;
constexpr int kTriesMax = 100;   // to open a directory that others remove meanwhile
constexpr std::byte kLeft{1};    // in `done`, at the offset of the rank's number

// A complete copy has this mark between its states and its path, written last.
constexpr std::uint64_t kWholeAt = 512, kWholeMagic = 0x31304c4c4f544246;   // "FBTOLL01" in memory
using Whole = std::array<std::byte, 64>;
constexpr std::size_t kWholeChecksumAt = 56;

Whole encode_whole(std::uint64_t bytes, std::uint64_t wrote_ns) {
    Whole whole{};
    store_le(whole.data(), kWholeMagic);
    store_le(whole.data() + 8, bytes);
    store_le(whole.data() + 16, wrote_ns);
    store_le(whole.data() + kWholeChecksumAt, checksum(std::span<const std::byte>(whole).first(kWholeChecksumAt)));
    return whole;
}

Result<std::optional<std::uint64_t>> read_whole(io::File& file) {
    Whole whole{};
    const auto bytes = file.size();
    if (!bytes) return bytes.status();
    const auto got = file.read_at(kWholeAt, whole);
    if (!got) return got.status();
    const bool right = got.value() == whole.size() && load_le<std::uint64_t>(whole.data()) == kWholeMagic &&
                       load_le<std::uint64_t>(whole.data() + 8) == bytes.value() &&
                       load_le<std::uint64_t>(whole.data() + kWholeChecksumAt) ==
                           checksum(std::span<const std::byte>(whole).first(kWholeChecksumAt));
    return right ? std::optional(load_le<std::uint64_t>(whole.data() + 16)) : std::nullopt;
}

Status gone_is_fine(const Status& status) { return status.code() == Code::kNotFound ? Status::ok() : status; }

}   // namespace

std::string Gathering::name(const std::string& file, std::uint64_t team) {
    return fmt::format(".{}.forebay-{:016x}", file, team);
}

// Asks the file system, because only it knows its limit.
Status Gathering::check_length(const std::string& path, std::uint64_t team) {
    const std::filesystem::path target = path;
    const auto there = io::identify((target.parent_path() / name(target.filename().string(), team)).string());
    if (there.status().sys_errno() != ENAMETOOLONG) return Status::ok();
    return {Code::kUnsupported, path + ": its name is too long, recovery could not make a directory beside it"};
}

Result<std::unique_ptr<Gathering>> Gathering::open(std::unique_ptr<io::Directory> home, const std::string& file,
                                                   std::uint64_t team, bool create, io::Directory::Patience patience) {
    std::unique_ptr<Gathering> self(new Gathering(std::move(home), name(file, team), team));
    io::Directory& at = *self->home_;
    // Another recovery may remove the directory between the look and the lock. A sick file system may hide it for ever.
    for (int tries = 1;; ++tries) {
        const bool again = create && tries < kTriesMax;
        if (create) {
            auto made = at.create_directory(self->name_);
            if (!made && made.status().code() != Code::kAlreadyExists) return made.status();
        }
        const auto facts = at.facts(self->name_);
        if (!facts) {
            if (facts.status().code() == Code::kNotFound && again) continue;
            return facts.status();
        }
        if (facts.value().kind != io::Facts::Kind::kDirectory || facts.value().owner != ::geteuid() ||
            (facts.value().mode & io::Facts::kWritableByOthers) != 0)
            return Status(Code::kPermissionDenied,
                          fmt::format("{}/{} is not a directory of this user alone", at.name(), self->name_));
        auto directory = at.open_directory(self->name_);
        if (!directory) {
            if (directory.status().code() == Code::kNotFound && again) continue;
            return directory.status();
        }
        self->directory_ = std::move(directory).value();
        auto lock = self->directory_->lock(patience);
        if (lock) self->lock_ = std::move(lock).value();
        else if (io::has_holder(lock.status()))
            return Status(Code::kUnavailable, "another recovery is bringing it home", EWOULDBLOCK, true);
        else if (const int error = lock.status().sys_errno(); error != ENOTSUP && error != ENOSYS && error != ENOLCK)
            return lock.status();
        if (const auto still = at.facts(self->name_)) return self;
        else if (still.status().code() != Code::kNotFound || !again) return still.status();
    }
}

Result<bool> Gathering::done() {
    const auto facts = directory_->facts(std::string(kDone));
    if (facts) return true;
    if (facts.status().code() == Code::kNotFound) return false;
    return facts.status();
}

// As in a segment's header. A file without a state was just created: nothing was written.
Result<std::optional<log::TargetState>> Gathering::begun() {
    const auto file = directory_->open_file(std::string(kBegun), io::OpenMode::kRead);
    if (file.status().code() == Code::kNotFound) return std::optional<log::TargetState>();
    if (!file) return file.status();
    std::array<std::byte, log::kStateOffset + 2 * log::kStateBytes> front{};
    const auto got = file.value()->read_at(0, front);
    if (!got) return got.status();
    return log::newest_target_state(front, team_);
}

Status Gathering::note_begun(const log::TargetState& state) {
    const bool first = begun_ == nullptr;
    if (first) {
        auto file = directory_->open_file(std::string(kBegun), io::OpenMode::kReadWrite);
        if (file.status().code() == Code::kNotFound)
            file = directory_->open_file(std::string(kBegun), io::OpenMode::kCreateNew);
        if (!file) return file.status();
        begun_ = std::move(file).value();
    }
    FOREBAY_TRY(begun_->write_at(log::state_offset(state.serial), log::encode(state, team_)));
    if (!first) return Status::ok();
    FOREBAY_TRY(begun_->sync());
    return directory_->sync();
}

Status Gathering::tell(io::File& journal, std::uint64_t member, std::uint64_t wrote_ns,
                       const std::function<Status()>& promise) {
    const std::string name = fmt::format("{}{}", kMember, member);
    auto copy = directory_->open_file(name, io::OpenMode::kReadWrite);
    if (copy) {
        const auto whole = read_whole(*copy.value());
        if (!whole) return whole.status();
        if (whole.value()) return promise();
        // A killed recovery may have promised this copy.
        FOREBAY_TRY(copy.value()->resize(0));
    } else if (copy.status().code() == Code::kNotFound) {
        copy = directory_->open_file(name, io::OpenMode::kCreateNew);
    }
    if (!copy) return copy.status();
    const auto bytes = journal.size();
    if (!bytes) return bytes.status();
    std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes.value(), kCopyBytes));
    for (std::uint64_t at = 0; at < bytes.value();) {
        const auto got = journal.read_at(at, buffer);
        if (!got) return got.status();
        if (got.value() == 0) return {Code::kCorrupt, journal.name() + ": it has become shorter"};
        FOREBAY_TRY(copy.value()->write_at(at, std::span(buffer).first(got.value())));
        at += got.value();
    }
    FOREBAY_TRY(copy.value()->sync());
    FOREBAY_TRY(directory_->sync());
    FOREBAY_TRY(home_->sync());
    // Before it counts: from then on another node may recover the file and remove all copies.
    FOREBAY_TRY(promise());
    FOREBAY_TRY(copy.value()->write_at(kWholeAt, encode_whole(bytes.value(), wrote_ns)));
    return copy.value()->sync();
}

Result<std::map<std::uint64_t, Gathering::Told>> Gathering::members() {
    std::map<std::uint64_t, Told> told;
    const auto names = directory_->list();
    if (!names) return names.status();
    for (const std::string& name : names.value()) {
        if (!name.starts_with(kMember)) continue;
        std::uint64_t member = 0;
        const char* const end = name.data() + name.size();
        if (const auto parsed = std::from_chars(name.data() + kMember.size(), end, member);
            parsed.ec != std::errc{} || parsed.ptr != end)
            continue;
        const auto facts = directory_->facts(name);
        if (!facts) return facts.status();
        if (facts.value().kind != io::Facts::Kind::kFile || facts.value().owner != ::geteuid()) continue;
        auto file = directory_->open_file(name, io::OpenMode::kRead);
        if (!file) return file.status();
        const auto whole = read_whole(*file.value());
        if (!whole) return whole.status();
        if (whole.value()) told.insert_or_assign(member, Told{std::move(file).value(), *whole.value()});
    }
    return told;
}

Status Gathering::set_done() {
    auto made = directory_->open_file(std::string(kDone), io::OpenMode::kCreateNew);
    if (!made && made.status().code() != Code::kAlreadyExists) return made.status();
    FOREBAY_TRY(directory_->sync());
    FOREBAY_TRY(home_->sync());
    const auto names = directory_->list();
    if (!names) return names.status();
    for (const std::string& name : names.value())
        if (name.starts_with(kMember)) FOREBAY_TRY(gone_is_fine(directory_->remove_file(name)));
    return gone_is_fine(directory_->remove_file(std::string(kBegun)));
}

// Each rank has a byte of its own, so that nodes without a lock do not overwrite each other's.
Status Gathering::leave(std::span<const std::uint64_t> ranks, std::uint64_t members) {
    const auto file = directory_->open_file(std::string(kDone), io::OpenMode::kReadWrite);
    if (!file) return file.status();
    for (const std::uint64_t rank : ranks) FOREBAY_TRY(file.value()->write_at(rank, std::span(&kLeft, 1)));
    FOREBAY_TRY(file.value()->sync());
    std::vector<std::byte> left(members);
    const auto got = file.value()->read_at(0, left);
    if (!got) return got.status();
    if (got.value() < members || std::any_of(left.begin(), left.end(), [](std::byte one) { return one != kLeft; }))
        return Status::ok();
    FOREBAY_TRY(gone_is_fine(directory_->remove_file(std::string(kDone))));
    return gone_is_fine(home_->remove_directory(name_));
}

Status Gathering::remove_empty() {
    const auto names = directory_->list();
    if (!names) return names.status();
    return names.value().empty() ? gone_is_fine(home_->remove_directory(name_)) : Status::ok();
}

}   // namespace forebay::recover
