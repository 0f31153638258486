// A context of HDF5's own for one call beneath.
// HDF5 reads the transfer list of a program's call once, keeps the values in the call's context, and writes into the
// list when the call returns. So a part of a call with another list needs a context of its own. It inherits how objects
// are wrapped. Ownership: ends with its scope; the lists used in it must live until then. Thread-safety: as HDF5's.
// Source: HDF5 reference manual, H5VLstart_lib_state (1.14), H5VLopen_lib_context (2.0).
#pragma once

namespace forebay::hdf5 {

class LibraryContext {
  public:
    LibraryContext() noexcept;
    ~LibraryContext();
    LibraryContext(const LibraryContext&) = delete;
    LibraryContext& operator=(const LibraryContext&) = delete;

    [[nodiscard]] bool is_open() const noexcept { return open_; }
    [[nodiscard]] static bool available();

  private:
    void* state_ = nullptr;
    void* context_ = nullptr;
    bool open_ = false;
};

}   // namespace forebay::hdf5
