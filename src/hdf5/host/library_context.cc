#include "hdf5/host/library_context.h"

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

namespace {

struct Functions {
    herr_t (*retrieve)(void**) = nullptr;
    herr_t (*restore)(const void*) = nullptr;
    herr_t (*free)(void*) = nullptr;
    herr_t (*start)() = nullptr, (*finish)() = nullptr;            // before 2.0
    herr_t (*open)(void**) = nullptr, (*close)(void*) = nullptr;   // since 2.0

    [[nodiscard]] bool found() const noexcept {
        return retrieve != nullptr && restore != nullptr && free != nullptr &&
               ((start != nullptr && finish != nullptr) || (open != nullptr && close != nullptr));
    }
};

template <class Function>
void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(host().find_symbol(name));
}

const Functions& functions() {
    static const Functions found = [] {
        Functions made;
        find(made.retrieve, "H5VLretrieve_lib_state");
        find(made.restore, "H5VLrestore_lib_state");
        find(made.free, "H5VLfree_lib_state");
        find(made.start, "H5VLstart_lib_state");
        find(made.finish, "H5VLfinish_lib_state");
        find(made.open, "H5VLopen_lib_context");
        find(made.close, "H5VLclose_lib_context");
        return made;
    }();
    return found;
}

}   // namespace

bool LibraryContext::available() { return functions().found(); }

LibraryContext::LibraryContext() noexcept {
    const Functions& inner = functions();
    if (!inner.found() || inner.retrieve(&state_) < 0) return;
    open_ = (inner.open != nullptr ? inner.open(&context_) : inner.start()) >= 0;
    if (open_) inner.restore(state_);
}

LibraryContext::~LibraryContext() {
    const Functions& inner = functions();
    const ErrorStackKeeper keeper;
    if (open_) inner.open != nullptr ? inner.close(context_) : inner.finish();
    if (state_ != nullptr) inner.free(state_);
}

}   // namespace forebay::hdf5
