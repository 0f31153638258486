// A staged file as its outflow sees it: the bytes to drain, and the effects of each end of a write. `StagedFile` owns
// this; `hold` keeps the file while a drain thread works. Locks: as drain::DrainListener. Nothing here blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "drain/listener.h"
#include "group/bypass_count.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"

namespace forebay::stage {

class StagedFile;

class DrainedFile final : public drain::DrainListener {
  public:
    // `owner` contains the other two, and this.
    DrainedFile(StagedFile& owner, FileState& file, StagingLog& log) noexcept : owner_(owner), file_(file), log_(log) {}

    // Writes that bypass the log and are under way now. A group counts those of all its processes.
    [[nodiscard]] group::BypassCount& bypasses() noexcept override {
        return file_.group ? file_.group->target().bypasses() : bypasses_;
    }
    // Lets a group's other processes write to the target, if the drain failed with on_error=through. The file's lock.
    void allow_bypass() noexcept;

  private:
    std::shared_ptr<void> hold() override;
    bool drains() const noexcept override { return file_.drains(); }
    bool given_up() const noexcept override { return file_.mode == FileMode::kFailed; }
    void catch_up(bool may_wait) override;
    drain::Backlog backlog() const noexcept override;
    void note(const log::TargetState& state) noexcept override;
    bool has_records() const noexcept override;
    void written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept override;
    void lost() noexcept override;
    void error_kept(int sys_errno) noexcept override;
    void made_good() noexcept override;
    void paused() noexcept override;
    void halted(const Status& failure) noexcept override;
    void pace_changed() noexcept override;
    void progressed() noexcept override;
    void synced() noexcept override;
    void reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) override;
    void came_to_rest() noexcept override;

    StagedFile& owner_;
    FileState& file_;
    StagingLog& log_;
    group::BypassCount bypasses_;   // of a file that is not shared
};

}   // namespace forebay::stage
