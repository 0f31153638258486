// Operations on the operating system's files beyond io/file.h: times and leases. Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Returns null if it is no file of the operating system.
[[nodiscard]] std::shared_ptr<Descriptor> descriptor_of(File& file) noexcept;

// Sets the time of the last change, for the file's owner. Returns kUnsupported without a descriptor.
[[nodiscard]] Status set_modified(File& file, std::uint64_t modified_ns);

// Makes programs of this machine that open or truncate the file wait: for its end, or the system's limit
// (/proc/sys/fs/lease-break-time, 45 s). No process gets a signal.
class Lease {
  public:
    // Returns null without leases, with another open descriptor, or for another owner. Does not block.
    [[nodiscard]] static std::unique_ptr<Lease> take(File& file);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

  private:
    explicit Lease(std::shared_ptr<Descriptor> descriptor) noexcept : descriptor_(std::move(descriptor)) {}
    const std::shared_ptr<Descriptor> descriptor_;
};

}   // namespace forebay::io
