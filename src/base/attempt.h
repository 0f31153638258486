// For code that must finish without memory, such as destructors and error handlers. Throws nothing. Any thread.
#pragma once

#include <cerrno>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace forebay {

// The text fits into the string object, so this needs no memory.
[[nodiscard]] inline Status out_of_memory() noexcept { return {Code::kUnavailable, "out of memory", ENOMEM}; }

// Returns the Status of `act`, or ok if `act` returns void. Returns out_of_memory() if `act` throws std::bad_alloc, and
// kInternal for any other exception, which no code throws on purpose.
template <class Act>
[[nodiscard]] Status attempt(Act&& act) noexcept {
    try {
        if constexpr (std::is_void_v<std::invoke_result_t<Act>>) {
            std::forward<Act>(act)();
            return Status::ok();
        } else {
            return std::forward<Act>(act)();
        }
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    } catch (...) {
        return {Code::kInternal, "an exception"};
    }
}

// Makes a system call's failure as Status::from_errno does. Use it for errors that the system reports only once.
// `describe` names the attempt and the file. Without memory for that text, the failure has a shorter one.
template <class Describe>
[[nodiscard]] Status failed_call(int sys_errno, Describe&& describe) noexcept {
    try {
        return Status::from_errno(sys_errno, std::forward<Describe>(describe)());
    } catch (const std::bad_alloc&) {
        return Status::from_errno(sys_errno);
    }
}

// Returns a copy of `failure`. Without memory for its text, the copy has the text `instead`, which fits into the string
// object.
template <std::size_t Size>
    requires(Size <= 16)
[[nodiscard]] Status copy_of(const Status& failure, const char (&instead)[Size]) noexcept {
    try {
        return failure;
    } catch (const std::bad_alloc&) {
        return {failure.code(), instead, failure.sys_errno()};
    }
}

}   // namespace forebay
