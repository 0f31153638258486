// A task::StartThread that always fails, as on a machine without free threads.
#pragma once

#include <functional>
#include <system_error>
#include <thread>

namespace forebay::test {

[[nodiscard]] inline std::jthread no_thread(const std::function<void()>&) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

}   // namespace forebay::test
