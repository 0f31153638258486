// The store that a process opens for its read cache, once it is needed.
// The first call opens the staging area, the further devices and the store. A failure stays, unless it may pass: a lack
// of descriptors, or a locked folder. Invariant: once open, the store stays the same to the end of this object, so it
// may be used without the lock. Thread-safe: a lock guards the rest. Blocks on the staging area.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/options.h"
#include "base/status.h"
#include "cache/small_files.h"
#include "cache/store.h"
#include "io/file.h"

namespace forebay::cache {

inline constexpr const char* kCacheFolder = "cache";   // in the folder of the user's staging area

class ProcessStore {
  public:
    using OpenArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    // `let_go` drops replicas that only this process keeps, because the cache is full. The options outlive this.
    ProcessStore(const Options& options, OpenArea open_area, std::function<void()> let_go);

    [[nodiscard]] Status open();
    // Requires that `open` succeeded.
    [[nodiscard]] Store& store() const noexcept { return *store_; }
    // The shared copies of small files. Null: they or the store cannot be opened; a failed open is not repeated.
    [[nodiscard]] std::shared_ptr<SmallFiles> small_files(bool permanent);
    void drop_small_files() noexcept;

    // True if the problem of an open may pass.
    [[nodiscard]] static bool passes(const Status& problem) noexcept;

    // Sets `warning` to an error of `open`, for the user. Each of these two calls does nothing once either has warned.
    void warn_of(const Status& problem, std::string& warning) noexcept;
    // Sets `warning` if a further device cannot be used.
    void warn_of_device(std::string& warning) noexcept;

  private:
    const Options& options_;
    const OpenArea open_area_;
    const std::function<void()> let_go_;
    std::mutex mutex_;   // guards the members below
    bool tried_ = false, warned_ = false, small_tried_ = false;
    Status problem_, device_problem_;
    std::shared_ptr<Store> store_;
    std::shared_ptr<SmallFiles> small_files_;
};

}   // namespace forebay::cache
