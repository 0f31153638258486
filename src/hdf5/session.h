// The objects that live while forebay serves its host: the engine, the file drivers, the connectors beneath.
// The first open with a connector text judges it. The first one also makes the engine, one for each host library. So
// the options of the first text hold for the whole process, but for `stage`, `strict`, `under_vol` and `under_info`.
// Ownership: the first use makes the session, which is never destroyed: HDF5 closes files in its own exit handler,
// after the destructors of static objects. `end` ends the engine; HDF5 calls it after the last close. Thread-safety:
// any thread. Blocking: `end` waits like the engine's destructor; no other call blocks.
#pragma once

#include <sys/types.h>

#include <atomic>
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

struct Route {
    hid_t under_connector = H5I_INVALID_HID;    // held by the session
    void* under_info = nullptr;                 // held by the session
    std::optional<ledger::AsideReason> aside;   // why no file with this text is staged
    Switch writes = Switch::kOn, reads = Switch::kOn;
    bool fails_in_event_set = false;
    Status refusal;   // option strict: why every open fails
};

class Session {
  public:
    static Session& get();

    // A refusal in it names the option and its source.
    const Route& route(const std::string& text);

    // Null before the first open and after the end. A forked child gets its own for files that it opens, not inherited
    // ones.
    [[nodiscard]] std::shared_ptr<stage::Engine> engine();

    // Returns forebay's file driver, and registers it first if need be. Negative: HDF5 refused.
    hid_t driver();
    [[nodiscard]] bool is_ours(hid_t driver_id) const noexcept { return driver_ >= 0 && driver_id == driver_; }
    hid_t mpi_driver();
    [[nodiscard]] bool is_our_mpi(hid_t driver_id) const noexcept {
        return mpi_driver_ >= 0 && driver_id == mpi_driver_;
    }

    [[nodiscard]] bool wants(const Route& route, hid_t file_access_list, bool writable) const;
    [[nodiscard]] bool wants(hid_t file_access_list, bool writable);   // with the text of the engine

    void count_aside(ledger::AsideReason reason);
    // HDF5 is about to read an object anew (H5Drefresh, H5Grefresh, H5Trefresh, H5Orefresh), for all of its handles.
    // Compares cached files (stage::FileTable::compare_cached).
    void note_refresh() noexcept;
    // Number of these calls so far. While it is unchanged, HDF5 keeps the metadata of a file that is open read-only.
    [[nodiscard]] std::uint64_t refreshes() const noexcept { return refreshes_.load(std::memory_order_relaxed); }

    // Keeps a closed file's failure that no call reported (call_scope.h). `end` writes it to standard error.
    void keep_unreported(Status failure) noexcept;

    void forget_connectors();   // HDF5 ends the connector
    void end();                 // HDF5 ends the driver
    void end_mpi_driver();
    // Drains files that HDF5 could not close. Runs after HDF5's exit handler, when no code of HDF5 runs.
    void end_of_process() noexcept;

  private:
    friend class forebay::Immortal<Session>;
    Session();
    Route judge(const std::string& text);
    void make_engine(const LoadedOptions& loaded, std::string text);   // instead of an inherited one
    [[nodiscard]] Status take_unreported();
    Status find_under(const LoadedOptions& loaded, Route& route);

    // A fork takes both mutexes, because the child asks for its engine.
    std::timed_mutex mutex_;
    std::map<std::string, Route, std::less<>> routes_;
    std::shared_ptr<stage::Engine> engine_;
    std::string engine_text_;
    Switch writes_ = Switch::kOn, reads_ = Switch::kOn;
    std::uint64_t engine_generation_ = 0;
    std::vector<std::shared_ptr<stage::Engine>> inherited_;
    std::vector<std::shared_ptr<stage::Engine>> lingering_;   // HDF5 has ended, but the process may go on
    // A mutex of its own: at the end of the process another thread may hold the other one for ever.
    std::timed_mutex end_mutex_;   // guards made_ and unreported_; innermost lock
    std::vector<std::weak_ptr<stage::Engine>>
        made_;   // all of this process; a file that was never closed keeps its engine alive
    hid_t driver_ = H5I_INVALID_HID, mpi_driver_ = H5I_INVALID_HID;
    Status unreported_;
    std::atomic<std::uint64_t> refreshes_{0};
};

}   // namespace forebay::hdf5
