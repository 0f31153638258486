// For code that must finish without memory, such as destructors and error handlers. Throws nothing. Any thread.
#pragma once

#include <cerrno>
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

// Returns a copy of `failure`. Without memory for its text, the copy has the text `instead`, of at most 15 characters.
[[nodiscard]] inline Status copy_of(const Status& failure, const char* instead) noexcept {
    try {
        return failure;
    } catch (const std::bad_alloc&) {
        return {failure.code(), instead, failure.sys_errno()};
    }
}

}   // namespace forebay
