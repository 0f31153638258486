// Flushing one object is not a commit.
//
// H5Dflush and its kin write the metadata of one object, and then flush the driver. What the file holds
// then is no consistent whole (the superblock, for one, need not cover the object), so the driver must
// not commit it: a recovered file would be worse off than with the last whole flush. The driver sees
// only "flush"; these callbacks tell it which kind it is.
//
// Thread-safety: one flag per thread, since HDF5 calls the driver in the thread that called it.
#pragma once

namespace forebay::hdf5 {

class ObjectFlush {
  public:
    explicit ObjectFlush(bool applies) noexcept : outer_(active_) { active_ = active_ || applies; }
    ~ObjectFlush() { active_ = outer_; }
    ObjectFlush(const ObjectFlush&) = delete;
    ObjectFlush& operator=(const ObjectFlush&) = delete;

    [[nodiscard]] static bool is_active() noexcept { return active_; }

  private:
    static inline thread_local bool active_ = false;
    bool outer_;
};

}   // namespace forebay::hdf5
