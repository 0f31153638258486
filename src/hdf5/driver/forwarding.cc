#include "hdf5/driver/forwarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "area/last_writer.h"
#include "area/process.h"
#include "base/attempt.h"
#include "hdf5/warning.h"
#include "io/open_existing.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "io/socket.h"
#include "wire/home_server.h"
#include "wire/remote_file.h"
#include "wire/snapshot_file.h"

namespace forebay::hdf5 {

namespace {

Result<io::Address> address_of(const std::string& server, const Options& options) {
    auto address = io::parse_address(server);
    if (address) address.value().key_file = options.server_key;
    return address;
}

// Opens the last flush of the client that writes the file, if the server has one.
Status forward_reading(stage::OpenTarget& target, const Options& options, const std::string& server,
                       const wire::Open::Team& team) {
    const auto address = address_of(server, options);
    Status outcome = address.status();
    if (address) {
        auto snapshot = wire::SnapshotFile::open(address.value(), target.file, options.patience, team);
        if (snapshot) {
            target.file = std::move(snapshot).value();
            target.aside = ledger::AsideReason::kForwarded;
            return Status::ok();
        }
        outcome = snapshot.status();
        if (outcome.code() == Code::kUnsupported) return Status::ok();
    }
    const Status failure = outcome.with_context("option server=" + server);
    // A server that answers knows an active writer, so the file's own bytes may be torn.
    if (options.strict || failure.code() != Code::kNotFound) return failure;
    warn_once(failure.message() + "; files are read as they are");
    target.aside = ledger::AsideReason::kServer;
    return Status::ok();
}

// The log of a dead server is like any dead process's: an engine on its staging area recovers it.
struct DeadServer {
    static std::string folder_of(const std::string& log) { return std::filesystem::path(log).parent_path().string(); }

    LoadedOptions loaded;
    io::Identity identity;
    std::string path, server;
    std::weak_ptr<io::Descriptor> descriptor;
    std::shared_ptr<const std::atomic<bool>> holds_lock;
    std::optional<io::Identity> area{};   // the directory that held the log

    bool sees(const std::string& log) {
        if (area::life_at(log) != area::Life::kLives) return false;
        const auto found = io::identify(folder_of(log));
        area = found ? std::optional(found.value()) : std::nullopt;
        return area.has_value();
    }
    // Another program may have written the file through the server after that had ended this one's session.
    [[nodiscard]] Status check_last_writer(const std::string& folder, std::uint64_t writer) const {
        const auto directory = io::open_posix_directory(folder);
        if (!directory) return directory.status();
        const auto last = area::last_writer(*directory.value(), identity);
        if (!last) return last.status();
        if (last.value() == writer) return Status::ok();
        return {Code::kUnavailable, "its staging area, " + folder + ", has no note that this program wrote it last"};
    }
    // A missing log was recovered, unless its file system is missing.
    Status recover_file(const std::string& log, std::uint64_t writer, const Status& why) {
        const auto found = io::identify(folder_of(log));
        if (!area || !found || found.value() != *area)
            return {Code::kUnavailable, "its staging area, with " + log + ", does not exist any more"};
        if (area::life_at(log) != area::Life::kEnded)
            return {Code::kUnavailable, "its process is still alive, and has bytes of it in " + log};
        FOREBAY_TRY(check_last_writer(folder_of(log), writer));
        Options& options = loaded.options;
        options.nls = std::filesystem::path(log).parent_path().parent_path().string();
        options.more_devices.clear();
        options.server.clear();
        options.stats.clear();
        options.trace.clear();
        options.stage = true;
        options.strict = true;   // an area that cannot be used may have the log
        const bool locked = holds_lock != nullptr && *holds_lock;
        stage::Leftovers::OpenedFile file{identity, path, true, locked, locked ? descriptor.lock() : nullptr};
        file.all_readable = true;   // an unreadable log may be this file's
        const auto recovered = stage::Engine::create(loaded)->leftovers().recover_opened(std::move(file));
        if (!recovered) return recovered.status();
        warn_once(fmt::format(
            "{}: the staging server {} is lost ({}); the file is at its last flush, and is written directly from "
            "now on",
            path, server, why.message()));
        return Status::ok();
    }
};

}   // namespace

Status forward(stage::OpenTarget& target, const LoadedOptions& loaded, const OpenFile& open, const Opening& opening) {
    const Options& options = loaded.options;
    if (!options.forwards() || target.aside) return Status::ok();
    const auto home = wire::home_server(options.server, open.identity.inode);
    if (!home) return home.status().with_context("option server");
    const std::string& server = home.value();
    if (!target.writable) return forward_reading(target, options, server, opening.team);
    const auto address = address_of(server, options);
    Status failure = address.status();
    bool unanswered = false;
    if (address) {
        wire::RemoteFile::Setup setup{{address.value(), options.patience},
                                      std::move(target.file),
                                      opening.emptied,
                                      opening.locked == Locked::kForWriting,
                                      opening.team};
        setup.server.lock = open.descriptor;
        setup.server.holds_lock = opening.holds_lock;
        const auto dead = std::make_shared<DeadServer>(DeadServer{loaded, open.identity, open.path, server,
                                                                  open.descriptor, opening.holds_lock});
        setup.server.sees = [dead](const std::string& log) { return dead->sees(log); };
        setup.server.recover_file = [dead](const std::string& log, std::uint64_t writer, const Status& why) {
            return dead->recover_file(log, writer, why);
        };
        auto remote = wire::RemoteFile::open(setup);
        if (remote) {
            target.forwarded = std::move(remote).value();
            target.aside = ledger::AsideReason::kForwarded;
            return Status::ok();
        }
        target.file = std::move(setup.file);
        failure = remote.status();
        unanswered = setup.unanswered;
    }
    failure = failure.with_context("option server=" + server);
    const bool in_use = failure.sys_errno() == EBUSY;
    const bool named_none = !address && address.status().code() == Code::kInvalidArgument;
    const bool nothing_there = named_none || opening.emptied || failure.code() == Code::kUnsupported;
    if (options.strict || in_use) return failure;
    if (unanswered)
        return {failure.code(),
                failure.message() + "; the server may open " + target.file->name() +
                    " later, so the file is not written without it",
                failure.sys_errno()};
    if (!nothing_there)
        return {failure.code(),
                fmt::format("{}; the server may have bytes of {}, so the file is not written without it: {}",
                            failure.message(), target.file->name(),
                            failure.code() == Code::kNotFound
                                ? "start the server, or run `forebay recover` where it ran"
                                : "mend that, or end the server and run `forebay recover` there"),
                failure.sys_errno()};
    warn_once(failure.message() + "; files are written directly, unstaged");
    target.aside = ledger::AsideReason::kServer;
    return Status::ok();
}

Status forward_together(file::Team& team, stage::OpenTarget& target, const LoadedOptions& loaded, const OpenFile& open,
                        Opening opening) {
    enum class Way : std::uint64_t { kNone, kWants, kForwarded };
    const auto tell = [&team](const Status& mine, Way way) {
        return team.agree(mine, static_cast<std::uint64_t>(way));
    };
    const bool wants = loaded.options.forwards() && !target.aside;
    std::uint64_t id = 0;
    const Status prepared = attempt([&] {
        std::random_device source;
        id = ((std::uint64_t{source()} << 32) | source()) | 1;
        return Status::ok();
    });
    const auto wanted = tell(prepared, wants ? Way::kWants : Way::kNone);
    if (!wanted) return wanted.status();
    const auto some = std::ranges::count(wanted.value(), static_cast<std::uint64_t>(Way::kWants));
    if (some == 0) return Status::ok();
    if (some < team.size()) {   // a rank that stages would not see the bytes that others forward
        const Status differ(Code::kInvalidArgument,
                            "open " + open.path + ": only some ranks name a staging server (option server)");
        FOREBAY_TRY(team.agree(attempt([&] { return loaded.options.strict ? differ : Status::ok(); })));
        (void)attempt([&] {
            if (team.rank() == 0) warn_once(differ.message() + "; files are written directly, unstaged");
        });
        if (!target.aside) target.aside = ledger::AsideReason::kServer;
        return Status::ok();
    }
    FOREBAY_TRY(team.broadcast(0, std::as_writable_bytes(std::span(&id, 1))));
    // A rank that writes alone is an ordinary client.
    if (team.size() > 1) opening.team = {id, static_cast<std::uint32_t>(team.size()), team.rank() > 0};
    const bool first = team.rank() == 0;
    const auto go = [&](bool turn) {
        const Status mine = attempt([&] { return turn ? forward(target, loaded, open, opening) : Status::ok(); });
        return tell(mine, target.aside == ledger::AsideReason::kForwarded ? Way::kForwarded : Way::kNone);
    };
    const auto opened = go(first);
    if (!opened) return opened.status();
    if (static_cast<Way>(opened.value()[0]) != Way::kForwarded) {
        if (target.writable && !target.aside) target.aside = ledger::AsideReason::kServer;
        return Status::ok();
    }
    opening.emptied = false;
    const auto joined = go(!first);
    if (!joined) return joined.status();
    if (std::ranges::count(joined.value(), static_cast<std::uint64_t>(Way::kForwarded)) == team.size())
        return Status::ok();
    return {Code::kUnavailable, "open " + open.path + ": the staging server opened it for some ranks only"};
}

namespace {

Status ask_for_writer(const Options& options, io::File& file, std::uint64_t inode) {
    const auto home = wire::home_server(options.server, inode);
    if (!home) return home.status();
    const auto address = address_of(home.value(), options);
    if (!address) return address.status();
    const auto message = wire::describe(file, wire::Purpose::kFollow, address.value());
    if (!message) return message.status();
    const Status answered = wire::open_session(address.value(), options.patience, message.value()).status();
    return answered.with_context("staging server " + home.value());
}

}   // namespace

Status ask_for_writer(const Options& options, const OpenFile& open) {
    return attempt([&] {
        return ask_for_writer(options, *io::make_posix_file(open.descriptor, open.path), open.identity.inode);
    });
}

bool may_have_writer(const Options& options, const char* path) {
    const Status asked = attempt([&]() -> Status {
        const auto opened = io::open_existing(path, io::Access::kRead);
        if (opened.status().code() == Code::kNotFound) return Status(Code::kUnsupported, opened.status().message());
        if (!opened) return opened.status();
        const auto file = io::make_posix_file(opened.value().descriptor, io::complete_path(path));
        return ask_for_writer(options, *file, opened.value().identity.inode);
    });
    return asked.code() != Code::kUnsupported;
}

}   // namespace forebay::hdf5
