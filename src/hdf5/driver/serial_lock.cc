#include "hdf5/driver/serial_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>

#include "hdf5/driver/forwarding.h"
#include "hdf5/driver/serial_file.h"
#include "hdf5/host/guard.h"
#include "hdf5/session.h"
#include "io/lock_wait.h"

namespace forebay::hdf5 {

namespace {

// True if reads return the last flush of a client that writes the file. The client's lock does not guard that state.
bool shown(const char* function, SerialFile& file) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (file.open->writable || engine == nullptr || !engine->options().options.forwards()) return false;
    return attached(function, file) != nullptr && file.shown;
}

// A client of the staging server, and then the server, has the file locked until the written bytes are in the file.
// Others wait for that, as they do for programs that stage by themselves.
enum class Got : std::uint8_t { kNothing, kLock, kLastFlush };
Got lock_beside_clients(const char* function, SerialFile& file, Locked wanted, int operation) {
    constexpr std::chrono::seconds kUnlocks{2};   // for a client to end its lock after the server has closed the file
    constexpr int kTurns = 2;                     // another client may open the file in between
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const OpenFile& open = *file.open;
    if (engine == nullptr || !engine->options().options.forwards() ||
        engine->files().find(open.identity) != nullptr)   // this process has the file
        return Got::kNothing;
    for (int turn = 0; turn < kTurns; ++turn) {
        const Status written = ask_for_writer(engine->options().options, open);
        const bool no_writer = written.code() == Code::kUnsupported;
        if (!no_writer && wanted == Locked::kForReading) {
            if (shown(function, file)) return Got::kLastFlush;
            if (open.file == nullptr) return Got::kNothing;   // the reason is on the stack
        } else if (!no_writer) {
            if (!written) push_error(function, host().H5E_VFL_g, host().H5E_CANTLOCKFILE_g, written.message().c_str());
            return Got::kNothing;
        }
        const auto use = open.descriptor->use();
        if (!use) return Got::kNothing;
        const auto try_lock = [&](int) { return open.descriptor->lock(operation); };
        if (io::await_lock(use.value().number(), kUnlocks, try_lock)) return Got::kLock;
    }
    return Got::kNothing;
}

// Locks with flock as sec2 does. A file system without locks is no error if the user allows that.
herr_t lock_file(const char* function, SerialFile& file, Locked wanted, const hid_t* minor, const char* doing) {
    if (file.by_lease) return 0;   // the leased bytes stay as they are, even if the file is written
    const int operation = wanted == Locked::kForWriting   ? LOCK_EX | LOCK_NB
                          : wanted == Locked::kForReading ? LOCK_SH | LOCK_NB
                                                          : LOCK_UN;
    bool locked = file.open->descriptor->lock(operation);
    const int error = errno;
    if (!locked && error == EWOULDBLOCK && wanted != Locked::kNot) {
        const Got got = lock_beside_clients(function, file, wanted, operation);
        if (got == Got::kLastFlush) return 0;   // the writer keeps the lock
        locked = got == Got::kLock;
    }
    if (locked) {
        file.locked = wanted;
        *file.holds_lock = wanted == Locked::kForWriting;
        return 0;
    }
    if (error == ENOSYS && file.ignore_disabled_locks) {
        errno = 0;
        return 0;
    }
    // A file that this process could not close keeps its lock. It may be read; an open for writing gets the reason.
    if (error == EWOULDBLOCK)
        if (const std::shared_ptr<stage::Engine> engine = Session::get().engine(); engine != nullptr)
            if (const auto known = engine->files().find(file.open->identity);
                known != nullptr && known->lifecycle().failed())
                return 0;
    push_errno(function, host().H5E_VFL_g, minor, doing, error);
    return -1;
}

}   // namespace

herr_t driver_lock(H5FD_t* file, hbool_t exclusive) {
    constexpr const char* kFunction = "driver_lock";
    return guard(kFunction, [&]() -> herr_t {
        SerialFile& self = *as_file<SerialFile>(file);
        if (const std::shared_ptr<stage::Engine> engine = Session::get().engine();
            engine != nullptr && !await_closed(kFunction, self, *engine))
            return -1;
        if (lock_file(kFunction, self, exclusive ? Locked::kForWriting : Locked::kForReading, host().H5E_CANTLOCKFILE_g,
                      "unable to lock file") != 0)
            return -1;
        const std::shared_ptr<stage::Engine> engine = Session::get().engine();
        return engine == nullptr || see_leftovers(kFunction, self, *engine) ? 0 : -1;
    });
}

herr_t driver_unlock(H5FD_t* file) {
    return lock_file("driver_unlock", *as_file<SerialFile>(file), Locked::kNot, host().H5E_CANTUNLOCKFILE_g,
                     "unable to unlock file");
}

}   // namespace forebay::hdf5
