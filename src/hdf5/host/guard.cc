#include "hdf5/host/guard.h"

#include <cerrno>
#include <cstring>

namespace forebay::hdf5 {

void push_error(const char* function, const hid_t* major, const hid_t* minor, const char* message) noexcept {
    host().H5Epush2(H5E_DEFAULT, "forebay", function, 0, *host().H5E_ERR_CLS_g, *major, *minor, "%s", message);
}

void push_error(const char* function, const hid_t* major, const hid_t* minor, const Status& status) noexcept {
    if (status.sys_errno() == 0) push_error(function, major, minor, status.message().c_str());
    else
        host().H5Epush2(H5E_DEFAULT, "forebay", function, 0, *host().H5E_ERR_CLS_g, *major, *minor, "%s, errno = %d",
                        status.message().c_str(), status.sys_errno());
}

void push_errno(const char* function, const hid_t* major, const hid_t* minor, const char* doing, int error) noexcept {
    host().H5Epush2(H5E_DEFAULT, "forebay", function, 0, *host().H5E_ERR_CLS_g, *major, *minor,
                    "%s, errno = %d, error message = '%s'", doing, error, std::strerror(error));
}

int error_number(const Status& failure) noexcept {
    if (failure.sys_errno() != 0) return failure.sys_errno();
    switch (failure.code()) {
        case Code::kOk: return 0;
        case Code::kInvalidArgument: return EINVAL;
        case Code::kNotFound: return ENOENT;
        case Code::kUnsupported: return ENOTSUP;
        case Code::kNoSpace:
        case Code::kUnavailable: return EAGAIN;
        default: return EIO;
    }
}

namespace {

herr_t note_file(unsigned, const H5E_error2_t* error, void* found) {
    if (error->maj_num == *host().H5E_FILE_g) *static_cast<bool*>(found) = true;
    return 0;
}

struct OlderFunctions {
    using Get = herr_t (*)(QuietErrors::OlderHandler*, void**);
    using Set = herr_t (*)(QuietErrors::OlderHandler, void*);
    // Null in a library without deprecated functions.
    Get get = reinterpret_cast<Get>(host().find_symbol("H5Eget_auto1"));
    Set set = reinterpret_cast<Set>(host().find_symbol("H5Eset_auto1"));
};

}   // namespace

QuietErrors::QuietErrors() noexcept {
    unsigned is_v2 = 1;
    if (host().H5Eauto_is_v2(H5E_DEFAULT, &is_v2) >= 0 && is_v2 == 0) {
        const OlderFunctions older;
        older_ = older.get != nullptr && older.set != nullptr;
        if (older_) {
            const ErrorStackKeeper keeper;   // H5Eget_auto1 clears the stack
            older.get(&older_function_, &data_);
            older.set(nullptr, nullptr);
            return;
        }
    }
    host().H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    host().H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietErrors::~QuietErrors() {
    if (older_) OlderFunctions().set(older_function_, data_);
    else host().H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

// Looks for file errors only: a missing folder on the plugin path leaves errors of another kind.
bool is_search_after_failure() noexcept {
    bool found = false;
    (void)host().H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_file, &found);
    return found;
}

}   // namespace forebay::hdf5
