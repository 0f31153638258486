// A shared library that `load` loads and nothing unloads, and its functions. Thread-safe. Blocks as dlopen(3) does.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/status.h"

namespace forebay::wire {

class SharedLibrary {
  public:
    // Returns kUnavailable if this machine lacks the library. Its names do not collide with those of the program.
    [[nodiscard]] static Result<SharedLibrary> load(const char* name) {
        void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) return Status(Code::kUnavailable, fmt::format("{} is needed: {}", name, ::dlerror()));
        return SharedLibrary(handle);
    }
    template <class Function>
    [[nodiscard]] bool find(const char* name, Function& function) const noexcept {
        function = reinterpret_cast<Function>(::dlsym(handle_, name));
        return function != nullptr;
    }

  private:
    explicit SharedLibrary(void* handle) noexcept : handle_(handle) {}
    void* handle_;
};

}   // namespace forebay::wire
