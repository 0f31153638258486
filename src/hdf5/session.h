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

#include "hdf5/host.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

inline constexpr const char* kConnectorName = "forebay";
// From the range 256..511 that HDF5 keeps for connectors that are not (yet) in its registry.
inline constexpr H5VL_class_value_t kConnectorValue = 482;

// How files with one connector text are opened.
struct Route {
    hid_t under_connector = H5I_INVALID_HID;        // held by the session
    void* under_info = nullptr;                     // held by the session
    std::optional<log::AsideReason> aside;          // why no file with this text is staged
    Status refusal;                                 // option strict: why every open with this text fails
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
    [[nodiscard]] bool is_our_mpi(hid_t driver_id) const noexcept { return mpi_driver_ >= 0 && driver_id == mpi_driver_; }


    void count_aside(log::AsideReason reason, const char* path);

    // Failures to bring staged data home, found while HDF5 closed a file inside another call. The next
    // close callback reports them; `end` writes what nobody asked for to standard error.
    void keep_failure(Status failure);
    [[nodiscard]] Status take_failure();
    // The same of a flush that HDF5 made inside another call. A flush or close of the file that led here reports it; whatever else
    // did, a close of an object most of all, does not fail for it: the file keeps the failure and tells it at its next flush, and HDF5
    // frees an object whose close fails while the program still has its identifier.
    void keep_flush_failure(Status failure);
    [[nodiscard]] Status take_flush_failure();

    void forget_connectors();   // HDF5 ends the connector
    void end();                 // HDF5 ends the driver
    void end_mpi_driver();

  private:
    Session() = default;
    Route judge(const std::string& text);
    void make_engine(const LoadedOptions& loaded, const std::string& text);
    Status find_under(const LoadedOptions& loaded, Route& route);

    std::mutex mutex_;
    std::map<std::string, Route, std::less<>> routes_;
    std::shared_ptr<stage::Engine> engine_;
    std::string engine_text_;
    std::uint64_t engine_generation_ = 0;   // of forks
    std::vector<std::shared_ptr<stage::Engine>> inherited_;
    hid_t driver_ = H5I_INVALID_HID, mpi_driver_ = H5I_INVALID_HID;
    Status failure_, flush_failure_;
};

}   // namespace forebay::hdf5
