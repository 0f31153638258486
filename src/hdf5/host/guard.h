// The boundary to HDF5's C code: no exception passes it, and every failure is on HDF5's error stack.
// Thread-safety: HDF5 calls back under its own lock or from one thread; each thread has its own error stack. Source:
// HDF5 reference manual, H5E. Codes follow H5FDsec2.c: h5py and others map them to exceptions.
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "base/status.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// Pushes one frame. `major` and `minor` are the host's variables, e.g. host().H5E_FILE_g.
void push_error(const char* function, const hid_t* major, const hid_t* minor, const char* message) noexcept;
void push_error(const char* function, const hid_t* major, const hid_t* minor, const Status& status) noexcept;
// Pushes "`doing`, errno = 2, error message = 'No such file or directory'", in the words of sec2.
void push_errno(const char* function, const hid_t* major, const hid_t* minor, const char* doing, int error) noexcept;

[[nodiscard]] int error_number(const Status& failure) noexcept;

// Restores the calling thread's error stack after calls into the host, each of which clears the stack.
class ErrorStackKeeper {
  public:
    ErrorStackKeeper() noexcept : stack_(host().H5Eget_current_stack()) {}
    ~ErrorStackKeeper() {
        if (stack_ >= 0) host().H5Eset_current_stack(stack_);
    }
    ErrorStackKeeper(const ErrorStackKeeper&) = delete;
    ErrorStackKeeper& operator=(const ErrorStackKeeper&) = delete;

  private:
    hid_t stack_;
};

// True if the thread's current HDF5 call failed to open a file. Every call begins with an empty stack, so a connector
// sees this only while HDF5 searches its plugin path for one that can read the file.
[[nodiscard]] bool is_search_after_failure() noexcept;

// Keeps HDF5 from calling the program's error handler meanwhile, whichever version of H5Eset_auto has set it. Leaves
// the thread's error stack as it is.
class QuietErrors {
  public:
    using OlderHandler = herr_t (*)(void*);   // H5E_auto1_t, which a library without deprecated functions lacks
    QuietErrors() noexcept;
    ~QuietErrors();
    QuietErrors(const QuietErrors&) = delete;
    QuietErrors& operator=(const QuietErrors&) = delete;

  private:
    H5E_auto2_t function_ = nullptr;
    OlderHandler older_function_ = nullptr;
    bool older_ = false;   // H5Eset_auto1 has set it; H5Eget_auto2 would fail, and H5Eset_auto2 would lose it
    void* data_ = nullptr;
};

// HDF5's value for a failure: null, HADDR_UNDEF or a negative number.
template <class R>
constexpr R failure() noexcept {
    if constexpr (std::is_pointer_v<R>) return nullptr;
    else if constexpr (std::is_same_v<R, haddr_t>) return HADDR_UNDEF;
    else return R{-1};
}

// Runs the body of a callback. `function` names the callback on the error stack.
template <class Body>
auto guard(const char* function, Body&& body) noexcept -> std::invoke_result_t<Body> {
    using R = std::invoke_result_t<Body>;
    try {
        return body();
    } catch (const std::bad_alloc&) {
        push_error(function, host().H5E_RESOURCE_g, host().H5E_NOSPACE_g, "out of memory");
    } catch (const std::exception& error) {
        push_error(function, host().H5E_INTERNAL_g, host().H5E_CANTOPERATE_g, error.what());
    } catch (...) {
        push_error(function, host().H5E_INTERNAL_g, host().H5E_CANTOPERATE_g, "unknown exception");
    }
    return failure<R>();
}

}   // namespace forebay::hdf5
