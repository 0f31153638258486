// What lives as long as forebay serves its host: the engine, the file driver, the connectors beneath.
//
// A connector text is judged once, when the first file is opened with it. The engine is made then;
// there is one per host library, so the options of the first text hold for the whole process, but for
// `stage`, `strict`, `under_vol` and `under_info`, which every text has for itself.
//
// Ownership: the session is made on first use and never destroyed, because HDF5 closes files from its
// own exit handler, which runs after the destructors of static objects. `end` ends the engine; HDF5
// calls it, through the driver's terminate callback, when the last file is closed.
// Thread-safety: all members may be called from any thread.
// Blocking: `end` waits for what the engine's destructor waits for; nothing else blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "hdf5/host/host.h"
#include "hdf5/identity.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

// How files with one connector text are opened.
struct Route {
    hid_t under_connector = H5I_INVALID_HID;            // held by the session
    void* under_info = nullptr;                         // held by the session
    std::optional<ledger::AsideReason> aside;           // why no file with this text is staged
    Switch writes = Switch::kOn, reads = Switch::kOn;   // which files are staged, and which are read through the cache
    bool fails_in_event_set = false;                    // asynchronous calls (connector/call_report.h)
    Status refusal;                                     // option strict: why every open with this text fails
};

class Session {
  public:
    static Session& get();

    // The route for a connector text. A refusal is in the route, with the option and its source.
    const Route& route(const std::string& text);

    // Null before the first open and after the end. A forked child gets an engine of its own for the files
    // that it opens itself; those that it inherited stay with the engine they are attached to.
    [[nodiscard]] std::shared_ptr<stage::Engine> engine();

    // The registered class of our file driver; registers it first if need be. Negative: HDF5 refused.
    hid_t driver();
    [[nodiscard]] bool is_ours(hid_t driver_id) const noexcept { return driver_ >= 0 && driver_id == driver_; }
    // The same for files opened with MPI.
    hid_t mpi_driver();
    [[nodiscard]] bool is_our_mpi(hid_t driver_id) const noexcept {
        return mpi_driver_ >= 0 && driver_id == mpi_driver_;
    }

    // Whether a file that is opened with this access list is to be staged, or read through the cache, as far as the
    // text and the list say.
    [[nodiscard]] bool wants(const Route& route, hid_t file_access_list, bool writable) const;
    [[nodiscard]] bool wants(hid_t file_access_list, bool writable);   // with the text of the engine

    void count_aside(ledger::AsideReason reason);
    // HDF5 is about to read an object anew (stage::FileTable::compare_cached).
    void compare_cached() noexcept;

    // A failure of a file that is closed, which no call could report (call_scope.h). `end` writes it to standard error.
    void keep_unreported(Status failure) noexcept;

    void forget_connectors();   // HDF5 ends the connector
    void end();                 // HDF5 ends the driver
    void end_mpi_driver();
    // After HDF5's exit handler, when no code of HDF5 runs any more: brings home what files have staged that HDF5 could
    // not close.
    void end_of_process() noexcept;

  private:
    friend class forebay::Immortal<Session>;
    Session();
    Route judge(const std::string& text);
    void make_engine(const LoadedOptions& loaded, const std::string& text);
    [[nodiscard]] Status take_unreported();
    Status find_under(const LoadedOptions& loaded, Route& route);

    // Both mutexes are taken around each fork: a child asks for its engine.
    std::timed_mutex mutex_;
    std::map<std::string, Route, std::less<>> routes_;
    std::shared_ptr<stage::Engine> engine_;
    std::string engine_text_;
    Switch writes_ = Switch::kOn, reads_ = Switch::kOn;   // of that text
    std::uint64_t engine_generation_ = 0;                 // of forks
    std::vector<std::shared_ptr<stage::Engine>> inherited_;
    std::vector<std::shared_ptr<stage::Engine>> lingering_;   // HDF5 has ended; the process may not
    // Apart: the end of the process takes it, though another thread may be in a call under the other one for ever.
    std::timed_mutex end_mutex_;   // guards made_ and unreported_; no other lock is taken below it
    std::vector<std::weak_ptr<stage::Engine>>
        made_;   // all of this process: a file that was never closed keeps one alive
    hid_t driver_ = H5I_INVALID_HID, mpi_driver_ = H5I_INVALID_HID;
    Status unreported_;
};

}   // namespace forebay::hdf5
