// An object that lives until the process ends, for a static variable of a function. HDF5 closes files from its exit
// handler, after static objects are destroyed, and threads may still run. It lies in static storage, so a destructor
// may use it first. Errors: those of T's constructor. The static variable guards the construction; then as T.
#pragma once

#include <cstddef>
#include <new>

namespace forebay {

template <class T>
class Immortal {
  public:
    Immortal() { ::new (static_cast<void*>(place_)) T(); }
    Immortal(const Immortal&) = delete;
    Immortal& operator=(const Immortal&) = delete;

    T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(place_)); }

  private:
    alignas(T) std::byte place_[sizeof(T)];
};

}   // namespace forebay
