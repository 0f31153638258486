// Objects as the application's calls see them, and the one way in which every callback forwards.
//
// HDF5 hands the connector opaque pointers; ours point to an `Object`: the pointer of the connector
// beneath, and the `Origin` that all objects of one opened file share. Each callback is: unwrap, call
// the same callback beneath, wrap what comes back. That is written here once.
//
// Ownership: an `Object` belongs to HDF5 from the callback that returns it to the close callback that
// ends it. The origin ends with its last object, request or wrapping context.
// Thread-safety: as HDF5's, which calls an object from one thread at a time.
// Source: HDF5 reference manual, "VOL connector author guide", pass-through connectors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hdf5/call_scope.h"
#include "hdf5/connector/call_report.h"
#include "hdf5/connector/elink.h"
#include "hdf5/connector/own_request.h"
#include "hdf5/host/guard.h"
#include "hdf5/host/host.h"
#include "hdf5/open_file.h"

namespace forebay::hdf5 {

// One opened file, as its objects need to know it.
struct Origin {
    hid_t under_connector = H5I_INVALID_HID;   // a reference is held
    hid_t connector = H5I_INVALID_HID;         // forebay itself; a reference is held, if valid
    std::string info;                          // the connector text of the file's access list
    bool staged = false;                       // the access list's driver was exchanged for ours
    bool mpi = false;                          // it was mpio
    bool metadata_made_collective = false;     // the list the program gave did not ask for collective metadata writes
    bool fails_in_event_set = false;           // as in Async VOL (call_report.h)
    std::shared_ptr<OpenFile> file;            // as the driver has it; null: it has not our driver

    Origin() = default;
    Origin(const Origin&) = delete;
    Origin& operator=(const Origin&) = delete;
    ~Origin();
};

// What decides how a dataset is transferred with MPI; it never changes.
struct DatasetFacts {
    bool filtered = false;
    bool known = true;                          // false: something could not be found out
    bool never_collective = false;              // HDF5 transfers it independently whatever the list says
    bool with_mpi = false;                      // the file that it lies in is ours, and ranks have it open together
    std::shared_ptr<file::SharedFile> shared;   // that file; null: they only read it
};

class DatasetBytes;

struct Object {
    void* under = nullptr;   // null once the object was closed with a failure, or if it could not be made
    std::shared_ptr<Origin> origin;
    std::optional<DatasetFacts> facts = std::nullopt;   // of a dataset, once it was asked for
    std::shared_ptr<DatasetBytes> bytes{};              // the same, for asynchronous calls
};

// What a call with an event set has begun. HDF5 takes requests for objects, too (H5VL_set_vol_wrapper).
struct Request : Object {
    std::unique_ptr<OwnRequest> own{};   // forebay's own: nothing is beneath; null: by the connector beneath
};

[[nodiscard]] inline Object* as_object(void* object) noexcept { return static_cast<Object*>(object); }
// The pointer beneath, of an argument that may be absent.
[[nodiscard]] inline void* under_of(void* object) noexcept {
    return object != nullptr ? as_object(object)->under : nullptr;
}

// Wraps what the connector beneath returned; null stays null.
[[nodiscard]] inline void* wrap(void* under, const std::shared_ptr<Origin>& origin) {
    return under != nullptr ? new Object{under, origin} : nullptr;
}
inline void wrap_request(void** request, const std::shared_ptr<Origin>& origin) {
    if (request != nullptr && *request != nullptr)
        *request = static_cast<Object*>(new Request{{*request, origin}, nullptr});
}

// Pushes what could not be brought home of files that HDF5 has closed in this call; or of `own`, the file of the object
// that is closed. True: nothing.
[[nodiscard]] inline bool brought_home(const char* function, OpenFile* own = nullptr) {
    Status lost = CallScope::take_failure(OpenFile::During::kClose);
    if (lost && own != nullptr) lost = own->take_failure(OpenFile::During::kClose);
    if (!lost) push_error(function, host().H5E_FILE_g, host().H5E_CANTCLOSEFILE_g, lost);
    return lost.is_ok();
}

// False, with an error on the stack: there is nothing beneath an object, and HDF5 would take it for one that was left
// out.
[[nodiscard]] inline bool is_usable(const char* function, void* object) noexcept {
    if (object == nullptr || as_object(object)->under != nullptr) return true;
    push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g,
               "the object was closed, or the call that should have made it has failed");
    return false;
}

// `call(under, connector beneath)` for an object; returns what it returns. It also fails if HDF5 closed a file in it
// that could not be brought home: that of an external link on a path.
template <class Call>
herr_t forward(const char* function, void* object, const AccessLists& lists, void** request, Call&& call,
               CallKind kind = CallKind::kOther, Failure failure = Failure::kInEventSet) noexcept {
    const CallReport report(*as_object(object)->origin, request, failure);
    return report.of(guard(function, [&]() -> herr_t {
        if (!is_usable(function, object)) return -1;
        const CallScope scope(kind);
        // The call may destroy the object (refresh does), so the origin is kept by itself.
        const std::shared_ptr<Origin> origin = as_object(object)->origin;
        const ElinkSwap swap(lists);
        const herr_t result = call(as_object(object)->under, origin->under_connector);
        wrap_request(request, origin);
        return brought_home(function) ? result : -1;
    }));
}

// The same for a call that returns a new object. If there is one, the call does not fail any more.
template <class Call>
void* forward_new(const char* function, void* object, const AccessLists& lists, void** request, Call&& call,
                  Failure failure = Failure::kInEventSet) noexcept {
    const std::shared_ptr<Origin>& origin = as_object(object)->origin;
    const CallReport report(*origin, request, failure);
    void* const made = guard(function, [&]() -> void* {
        if (!is_usable(function, object)) return nullptr;
        const CallScope scope(CallKind::kOther);
        const ElinkSwap swap(lists);
        void* const under = call(as_object(object)->under, origin->under_connector);
        if (under != nullptr) wrap_request(request, origin);
        else (void)brought_home(function);
        return wrap(under, origin);
    });
    return report.of_new(made, origin);
}

// The same for a call that ends the object. Closing an object may close its file; when staged data
// could not be brought home then, this call fails, although the object beneath is gone. HDF5 keeps the
// identifier in that case, so the wrapper stays, empty, and a second close succeeds. Its failure is never left to an
// event set: HDF5 1.14 looks into what it has freed when the close of an object has a request.
template <class Call>
herr_t forward_close(const char* function, void* object, void** request, Call&& call) noexcept {
    return guard(function, [&]() -> herr_t {
        const CallScope scope(CallKind::kOther);
        Object* const self = as_object(object);
        if (self->under != nullptr) {
            const herr_t result = call(self->under, self->origin->under_connector);
            if (result < 0) return result;
            wrap_request(request, self->origin);
            if (!brought_home(function, self->origin->file.get())) {
                self->under = nullptr;
                return -1;
            }
        }
        delete self;
        return 0;
    });
}

}   // namespace forebay::hdf5
