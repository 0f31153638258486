// What an open file of the operating system can do beyond the seam of io/file.h: its times, and leases.
//
// Files of other kinds have no descriptor. Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Null: it is no file of the operating system's.
[[nodiscard]] std::shared_ptr<Descriptor> descriptor_of(File& file) noexcept;

// Sets the time of its last change. kUnsupported: it has no descriptor. Others than its owner may not.
[[nodiscard]] Status set_modified(File& file, std::uint64_t modified_ns);

// While it lasts, programs of this machine that open or cut the file wait: until it is given back, or for as long as
// the system lets them wait (/proc/sys/fs/lease-break-time, 45 s). No process gets a signal.
class Lease {
  public:
    // Null: the file system has none, another descriptor of the file is open, or it belongs to another user. Does not
    // block.
    [[nodiscard]] static std::unique_ptr<Lease> take(File& file);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

  private:
    explicit Lease(std::shared_ptr<Descriptor> descriptor) noexcept : descriptor_(std::move(descriptor)) {}
    const std::shared_ptr<Descriptor> descriptor_;
};

}   // namespace forebay::io
