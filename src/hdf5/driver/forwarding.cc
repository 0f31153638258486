#include "hdf5/driver/forwarding.h"

#include <cerrno>
#include <utility>

#include "hdf5/warning.h"
#include "io/socket.h"
#include "wire/remote_file.h"
#include "wire/snapshot_file.h"

namespace forebay::hdf5 {

namespace {

// Its writer's last flush, if a client of the server writes it.
Status forward_reading(stage::OpenTarget& target, const Options& options) {
    const auto address = io::parse_address(options.server);
    if (!address) return address.status();
    auto snapshot = wire::SnapshotFile::open(address.value(), target.file, options.patience);
    if (snapshot) {
        target.file = std::move(snapshot).value();
        target.aside = ledger::AsideReason::kForwarded;
        return Status::ok();
    }
    if (snapshot.status().code() == Code::kUnsupported) return Status::ok();
    const Status failure = snapshot.status().with_context("option server=" + options.server);
    // Whoever has answered knows of a writer at work: what the file has by now may be torn.
    if (options.strict || failure.code() != Code::kNotFound) return failure;
    warn_once(failure.message() + "; files are read as they are");
    target.aside = ledger::AsideReason::kServer;
    return Status::ok();
}

}   // namespace

Status forward(stage::OpenTarget& target, const Options& options, bool emptied, Locked locked) {
    if (options.server.empty() || target.aside) return Status::ok();
    if (!target.writable) return forward_reading(target, options);
    const auto address = io::parse_address(options.server);
    Status failure = address.status();
    if (address) {
        wire::RemoteFile::Setup setup{address.value(), std::move(target.file), emptied, locked == Locked::kForWriting,
                                      options.patience};
        auto remote = wire::RemoteFile::open(setup);
        if (remote) {
            target.file = std::move(remote).value();
            target.aside = ledger::AsideReason::kForwarded;
            return Status::ok();
        }
        target.file = std::move(setup.file);
        failure = remote.status();
    }
    failure = failure.with_context("option server=" + options.server);
    const bool in_use = failure.sys_errno() == EBUSY;
    const bool nothing_there = failure.code() == Code::kInvalidArgument || emptied ||
                               failure.code() == Code::kUnsupported;
    if (options.strict || in_use) return failure;
    if (!nothing_there)
        return {failure.code(),
                failure.message() + "; the server may have bytes of " + target.file->name() +
                    ", so it is not written without it: start the server, or run `forebay recover` where it ran",
                failure.sys_errno()};
    warn_once(failure.message() + "; files are written directly, unstaged");
    target.aside = ledger::AsideReason::kServer;
    return Status::ok();
}

}   // namespace forebay::hdf5
