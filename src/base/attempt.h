// What has to come to its end without memory: a step that others wait for, a destructor, a handler of errors.
//
// Errors: none are thrown. Thread-safety: any thread.
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace forebay {

// Short enough to need no memory itself.
[[nodiscard]] inline Status out_of_memory() noexcept { return {Code::kUnavailable, "out of memory", ENOMEM}; }

// What `act` returns, a Status, or ok if it returns nothing; out_of_memory() if it has thrown std::bad_alloc, kInternal
// if something else, which nothing does on purpose.
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

// The same failure; with `instead` for its text for want of memory, which is short (15 characters).
[[nodiscard]] inline Status copy_of(const Status& failure, const char* instead) noexcept {
    try {
        return failure;
    } catch (const std::bad_alloc&) {
        return {failure.code(), instead, failure.sys_errno()};
    }
}

}   // namespace forebay
