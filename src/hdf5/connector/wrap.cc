#include <array>
#include <cstddef>

#include "hdf5/connector/callbacks.h"

// Wraps objects that HDF5 makes beneath (in iteration callbacks, for file identifiers). The context has the origin.

namespace forebay::hdf5 {

namespace {

struct WrapContext {
    std::shared_ptr<Origin> origin;
    void* under = nullptr;
};

// HDF5 gets this in place of its own structure if no object is beneath. To count the open objects of a file, HDF5 looks
// into the structures of all, without a check for null: at their file, or at a datatype's shared part. Each pointer in
// here leads to zeros: they are no open file's shared part, and the state of a datatype that is not immutable.
constexpr std::size_t kEmptyBytes = 4096;   // more than any of these structures has
alignas(std::max_align_t) constinit std::byte empty_part[kEmptyBytes]{};
constinit auto empty_structure = [] {
    std::array<void*, kEmptyBytes / sizeof(void*)> pointers{};
    pointers.fill(empty_part);
    return pointers;
}();

void* wrap_get_object(const void* object) {
    const auto* self = static_cast<const Object*>(object);
    return self->under != nullptr ? host().H5VLget_object(self->under, self->origin->under_connector)
                                  : empty_structure.data();
}

herr_t wrap_get_context(const void* object, void** context) {
    return guard("wrap_get_context", [&]() -> herr_t {
        const auto* self = static_cast<const Object*>(object);
        auto made = std::make_unique<WrapContext>();
        made->origin = self->origin;
        const bool is_own_request = self->under == nullptr;
        if (!is_own_request && host().H5VLget_wrap_ctx(self->under, self->origin->under_connector, &made->under) < 0)
            return -1;
        *context = made.release();
        return 0;
    });
}

void* wrap_object(void* object, H5I_type_t type, void* context) {
    return guard("wrap_object", [&]() -> void* {
        const auto* made = static_cast<const WrapContext*>(context);
        NewObject wrapped;
        return wrapped.around(host().H5VLwrap_object(object, type, made->origin->under_connector, made->under),
                              made->origin);
    });
}

void* unwrap_object(void* object) {
    return guard("unwrap_object", [&]() -> void* {
        Object* const self = as_object(object);
        void* const under = host().H5VLunwrap_object(self->under, self->origin->under_connector);
        if (under != nullptr) delete self;
        return under;
    });
}

herr_t wrap_free_context(void* context) {
    return guard("wrap_free_context", [&]() -> herr_t {
        const std::unique_ptr<WrapContext> made(static_cast<WrapContext*>(context));
        if (made->under == nullptr)   // always with the native connector; this runs with every call
            return 0;
        const ErrorStackKeeper keeper;
        host().H5VLfree_wrap_ctx(made->under, made->origin->under_connector);
        return 0;
    });
}

}   // namespace

H5VL_wrap_class_t wrap_callbacks() {
    return {wrap_get_object, wrap_get_context, wrap_object, unwrap_object, wrap_free_context};
}

}   // namespace forebay::hdf5
