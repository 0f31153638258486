// A descriptor that becomes readable when somebody signals it: to wait for that and for a socket together.
//
// Ownership: it closes its descriptor. Thread-safety: all calls from any thread. Nothing blocks.
#pragma once

#include <memory>

#include "base/status.h"

namespace forebay::io {

class Event {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Event>> create();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void signal() noexcept;
    // Until the next `signal` it is not readable any more.
    void clear() noexcept;
    [[nodiscard]] int number() const noexcept { return number_; }

  private:
    explicit Event(int number) noexcept : number_(number) {}
    const int number_;
};

}   // namespace forebay::io
