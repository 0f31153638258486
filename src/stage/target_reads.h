// The reads of a target for one call of the program; several run at a time if the target makes them wait.
// The calling thread carries out requests, and so do drain threads that have nothing else to do; it waits only for
// those that another thread has begun. So a busy drain delays no read. Ownership: the threads that work on it
// share it. The caller owns the buffers, and keeps them until `wait` has returned. A request is one read of the target;
// it fills one or more pieces (plan/read_merge.h). Thread-safe. Blocking: both calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "plan/read_merge.h"

namespace forebay::stage {

class TargetReads {
  public:
    TargetReads(std::shared_ptr<io::File> target, std::vector<plan::ReadPiece> pieces,
                std::vector<plan::ReadRequest> requests)
        : target_(std::move(target)), pieces_(std::move(pieces)), requests_(std::move(requests)) {}

    [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }
    // Carries out requests until none is left, or one has failed.
    void work() noexcept;
    // Waits for the requests that threads have begun; none begins after that. Returns the first failure.
    Status wait();

  private:
    Status carry_out(const plan::ReadRequest& request);

    const std::shared_ptr<io::File> target_;
    const std::vector<plan::ReadPiece> pieces_;
    const std::vector<plan::ReadRequest> requests_;

    std::mutex mutex_;
    std::condition_variable idle_;
    std::size_t next_ = 0, running_ = 0;   // running_: requests that have been begun and not ended
    Status failure_;
};

// Reads one range; bytes beyond the end of the file are zeros.
Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into);

}   // namespace forebay::stage
