#include "hdf5/driver/serial_file.h"

#include <utility>

#include "file/forwarded_file.h"
#include "file/local_file.h"
#include "hdf5/driver/forwarding.h"
#include "hdf5/host/guard.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

// Drops the logs that dead processes have left of a file that was emptied, also logs left since the open.
bool give_up_leftovers(const char* function, const OpenFile& file, stage::Engine& engine) {
    const Status forgotten = engine.leftovers().forget_before(file.identity, file.path, true);
    if (!forgotten) push_error(function, host().H5E_FILE_g, host().H5E_CANTINIT_g, forgotten.message().c_str());
    return forgotten.is_ok();
}

// HDF5 may go on after a call that has failed, so a failure holds for all later calls of this handle.
bool may_be_used(const char* function, SerialFile& file, const Status& found = Status::ok()) {
    if (!found && file.refused.is_ok()) file.refused = found;
    if (file.refused) return true;
    push_error(function, host().H5E_FILE_g, host().H5E_CANTINIT_g, file.refused.message().c_str());
    return false;
}

// Chooses how the program's calls reach the file.
Result<std::shared_ptr<file::ProgramFile>> attach(std::shared_ptr<stage::Engine> engine, stage::OpenTarget target) {
    if (target.forwarded != nullptr) {
        auto forwarded = std::make_shared<file::ForwardedFile>(std::move(engine));
        FOREBAY_TRY(forwarded->attach(std::move(target)));
        return std::shared_ptr<file::ProgramFile>(std::move(forwarded));
    }
    auto file = std::make_shared<file::LocalFile>(std::move(engine));
    const auto attached = file->attach(std::move(target));
    if (!attached) return attached.status();
    if (!attached.value().warning.empty()) warn_once(attached.value().warning);
    return std::shared_ptr<file::ProgramFile>(std::move(file));
}

// A forked child reads an inherited file that no handle writes here through an engine of its own, which caches and
// counts the reads. Without such an engine the parent's engine goes on, and reads the file itself.
void leave_parents_engine(SerialFile& file) {
    OpenFile& open = *file.open;
    if (open.writable || open.aside || file.shown || !open.file->engine().files().only_read(open.file->staged()))
        return;
    std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr || engine->inherited()) return;
    const Options& options = engine->options().options;
    if (options.read_cache == ReadCacheMode::kOff || options.forwards()) return;
    stage::OpenTarget target = target_of(open);
    if (file.by_lease) target.known_as = open.identity;
    if (auto attached = attach(std::move(engine), std::move(target))) open.file = std::move(attached).value();
}

}   // namespace

bool see_leftovers(const char* function, SerialFile& file, stage::Engine& engine) {
    if (file.emptied) return file.locked == Locked::kNot || give_up_leftovers(function, *file.open, engine);
    if (std::exchange(file.leftovers_seen, true)) return may_be_used(function, file);
    return may_be_used(function, file, recover_alone(*file.open, engine, file.locked));
}

bool await_closed(const char* function, SerialFile& file, stage::Engine& engine) {
    if (std::exchange(file.closes_awaited, true)) return may_be_used(function, file);
    using Before = stage::DeferredCloses::Before;
    return may_be_used(function, file,
                       engine.closes().await(file.open->identity, file.emptied ? Before::kDrop : Before::kUse));
}

file::ProgramFile* attached(const char* function, SerialFile& file, std::function<Status()> prepare) {
    OpenFile& open = *file.open;
    if (open.file != nullptr) {
        if (open.file->engine().inherited()) leave_parents_engine(file);
        return open.file.get();
    }
    std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr) {
        push_error(function, host().H5E_VFL_g, host().H5E_CANTINIT_g, "the staging engine has ended");
        return nullptr;
    }
    if (!await_closed(function, file, *engine) || !see_leftovers(function, file, *engine)) return nullptr;
    stage::OpenTarget target = target_of(open);
    target.prepare = std::move(prepare);
    target.leased = std::move(file.leased);
    if (file.by_lease) target.known_as = open.identity;
    const bool own = !target.writable && engine->files().find(open.identity) != nullptr;
    const Opening opening{file.emptied, file.locked, file.holds_lock};
    const Status forwarded = own ? Status::ok() : forward(target, engine->options(), open, opening);
    if (!forwarded) {
        push_error(function, host().H5E_FILE_g, host().H5E_CANTINIT_g, forwarded.message().c_str());
        return nullptr;
    }
    file.shown = !target.writable && target.aside == ledger::AsideReason::kForwarded;
    auto attached = attach(std::move(engine), std::move(target));
    if (!attached) {
        // Without its errno, which callers would take for that of the file: the staging has failed.
        push_error(function, host().H5E_FILE_g, host().H5E_CANTINIT_g, attached.status().message().c_str());
        return nullptr;
    }
    open.file = std::move(attached).value();
    file.end_of_file = open.file->size();
    return open.file.get();
}

}   // namespace forebay::hdf5
