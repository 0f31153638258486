// The objects of the application's calls, and the code with which every callback forwards.
// HDF5 holds opaque pointers to an `Object`: the pointer of the connector beneath, and the `Origin` that all objects of
// one opened file share. Ownership: HDF5 owns an `Object` from the callback that returns it to its close callback. The
// last object, request or wrapping context ends the origin. Thread-safety: HDF5 calls an object from one thread at a
// time. Source: HDF5 reference manual, "VOL connector author guide", pass-through connectors.
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
#include "hdf5/other_driver_files.h"

namespace forebay::hdf5 {

struct Origin {
    hid_t under_connector = H5I_INVALID_HID;   // holds a reference
    hid_t connector = H5I_INVALID_HID;         // forebay itself; holds a reference if valid
    std::string info;                          // the connector text of the access list
    bool staged = false;                       // the driver was exchanged for forebay's
    bool mpi = false;                          // the driver was mpio
    bool left_to_driver = false;               // a driver that is left to itself (other_driver.h) has the file
    bool metadata_made_collective = false;     // the program's list did not ask for collective metadata writes
    bool fails_in_event_set = false;           // like Async VOL (call_report.h)
    std::shared_ptr<OpenFile> file;            // null if forebay's driver does not have it
    std::string unstaged_name;                 // the name by which the program opened it; empty if it is staged
    std::optional<OtherDriverFiles::Use> other_driver;   // through which it is open; null if it is staged

    Origin() = default;
    Origin(const Origin&) = delete;
    Origin& operator=(const Origin&) = delete;
    ~Origin();
};

// The facts that decide how a dataset is transferred with MPI. They never change.
struct DatasetFacts {
    bool filtered = false;
    bool known = true;                          // false: HDF5 did not give all facts
    bool never_collective = false;              // HDF5 transfers it independently whatever the list says
    bool with_mpi = false;                      // ranks have its file open together, through forebay
    std::shared_ptr<file::SharedFile> shared;   // that file; null if they only read it
};

class DatasetBytes;

struct Object {
    void* under = nullptr;   // null after a failed close, or if the object could not be made
    std::shared_ptr<Origin> origin;
    std::optional<DatasetFacts> facts = std::nullopt;   // of a dataset, after the first need
    std::shared_ptr<DatasetBytes> bytes{};              // for asynchronous calls, after the first need
};

// The request of a call with an event set. HDF5 also treats requests as objects (H5VL_set_vol_wrapper).
struct Request : Object {
    std::unique_ptr<OwnRequest> own{};   // forebay's own request; null: the connector beneath has one
};

[[nodiscard]] inline Object* as_object(void* object) noexcept { return static_cast<Object*>(object); }
[[nodiscard]] inline void* under_of(void* object) noexcept {
    return object != nullptr ? as_object(object)->under : nullptr;
}

// The object that a call is about to return. It is made before the call: without memory for it afterwards, HDF5 could
// not close what the call beneath has opened.
class NewObject {
  public:
    // Returns null if `under` is null.
    [[nodiscard]] void* around(void* under, std::shared_ptr<Origin> origin) noexcept {
        if (under == nullptr) return nullptr;
        made_->under = under;
        made_->origin = std::move(origin);
        return made_.release();
    }

  private:
    std::unique_ptr<Object> made_ = std::make_unique<Object>();
};

// The request that the connector beneath may make in a call with an event set. Like `NewObject`, it is made before the
// call. `request` is the call's argument.
class NewRequest {
  public:
    explicit NewRequest(void** request)
        : request_(request), made_(request != nullptr ? std::make_unique<Request>() : nullptr) {}
    void wrap(std::shared_ptr<Origin> origin) noexcept {
        if (made_ == nullptr || *request_ == nullptr) return;
        made_->under = *request_;
        made_->origin = std::move(origin);
        *request_ = static_cast<Object*>(made_.release());
    }

  private:
    void** const request_;
    std::unique_ptr<Request> made_;
};

// Reports failed closes of this call's files, and of `own`, the closed object's file. Returns true if none failed.
[[nodiscard]] inline bool brought_home(const char* function, OpenFile* own = nullptr) {
    Status lost = CallScope::take_failure(OpenFile::During::kClose);
    if (lost && own != nullptr) lost = own->take_failure(OpenFile::During::kClose);
    if (!lost) push_error(function, host().H5E_FILE_g, host().H5E_CANTCLOSEFILE_g, lost);
    return lost.is_ok();
}

// Returns false, with an error on the stack, if no object is beneath: HDF5 would take null for an absent argument.
[[nodiscard]] inline bool is_usable(const char* function, void* object) noexcept {
    if (object == nullptr || as_object(object)->under != nullptr) return true;
    push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g,
               "the object was closed, or the call that creates it failed");
    return false;
}

// Returns false, with an error on the stack, if the connectors beneath differ. One call cannot have both objects then:
// a connector would take the other one's object for its own.
[[nodiscard]] bool have_same_connector(const char* function, const Object& first, const Object& second) noexcept;
// `is_usable` for both objects of a call, and `have_same_connector`. Null is an absent object.
[[nodiscard]] bool are_usable(const char* function, void* first, void* second) noexcept;

// Returns `call(under, connector beneath)` for an object. Also fails if a close in the call could not drain its file.
template <class Call>
herr_t forward(const char* function, void* object, const AccessLists& lists, void** request, Call&& call,
               CallKind kind = CallKind::kOther, Failure failure = Failure::kInEventSet) noexcept {
    const CallReport report(*as_object(object)->origin, request, failure);
    return report.of(guard(function, [&]() -> herr_t {
        if (!is_usable(function, object)) return -1;
        const CallScope scope(kind);
        // The call may destroy the object (refresh does), so this keeps the origin.
        const std::shared_ptr<Origin> origin = as_object(object)->origin;
        const ElinkSwap swap(lists, origin->left_to_driver);
        NewRequest beneath(request);
        const herr_t result = call(as_object(object)->under, origin->under_connector);
        beneath.wrap(origin);
        return brought_home(function) ? result : -1;
    }));
}

// Like `forward`, for a call that returns a new object. If there is one, the call succeeds.
template <class Call>
void* forward_new(const char* function, void* object, const AccessLists& lists, void** request, Call&& call,
                  Failure failure = Failure::kInEventSet) noexcept {
    const std::shared_ptr<Origin>& origin = as_object(object)->origin;
    const CallReport report(*origin, request, failure);
    void* const made = guard(function, [&]() -> void* {
        if (!is_usable(function, object)) return nullptr;
        const CallScope scope(CallKind::kOther);
        const ElinkSwap swap(lists, origin->left_to_driver);
        NewObject opened;
        NewRequest beneath(request);
        void* const under = call(as_object(object)->under, origin->under_connector);
        if (under != nullptr) beneath.wrap(origin);
        else (void)brought_home(function);
        return opened.around(under, origin);
    });
    return report.of_new(made, origin);
}

// Like `forward`, for a call that closes the object and perhaps its file. If staged bytes fail to drain, it fails
// although the object beneath is gone. HDF5 then keeps the identifier, so the empty wrapper stays and a second close
// succeeds. Event sets never get the failure: HDF5 1.14 reads freed memory when a close has a request.
template <class Call>
herr_t forward_close(const char* function, void* object, void** request, Call&& call) noexcept {
    return guard(function, [&]() -> herr_t {
        const CallScope scope(CallKind::kOther);
        Object* const self = as_object(object);
        if (self->under != nullptr) {
            NewRequest beneath(request);
            const herr_t result = call(self->under, self->origin->under_connector);
            if (result < 0) return result;
            beneath.wrap(self->origin);
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
