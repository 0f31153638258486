// An eventfd that poll(2) reports as readable after `signal`, until `clear`. Owns it. Thread-safe. No call blocks.
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
    void clear() noexcept;
    [[nodiscard]] int number() const noexcept { return number_; }

  private:
    explicit Event(int number) noexcept : number_(number) {}
    const int number_;
};

}   // namespace forebay::io
