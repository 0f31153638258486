// An owned HDF5 identifier: closed by the call that belongs to its kind.
#pragma once

#include <hdf5.h>

#include <utility>

namespace differential {

// Closes whatever `id` is; the result is that of the close call.
herr_t close_identifier(hid_t id);

class Id {
  public:
    Id() = default;
    explicit Id(hid_t id) : id_(id) {}
    Id(Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Id& operator=(Id&& other) noexcept {
        if (this != &other) {
            close();
            id_ = std::exchange(other.id_, H5I_INVALID_HID);
        }
        return *this;
    }
    ~Id() { close(); }

    [[nodiscard]] hid_t get() const { return id_; }
    [[nodiscard]] bool valid() const { return id_ >= 0; }
    [[nodiscard]] hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
    herr_t close() { return id_ > 0 ? close_identifier(std::exchange(id_, H5I_INVALID_HID)) : 0; }

  private:
    hid_t id_ = H5I_INVALID_HID;
};

}   // namespace differential
