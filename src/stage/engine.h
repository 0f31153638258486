// The staging engine of a process: options, staging area, drain threads, and the files that are open.
//
// One engine per host library (the plugin owns it). Creating one touches nothing on disk; the staging
// area is opened with the first file that is written. Ends its threads and removes its (empty) logs
// when destroyed; logs that still hold undrained bytes stay for recovery.
// Thread-safety: every call may come from any thread. Fork: a child that inherits the engine can read
// its files, gets a clear error from writes, and neither drains nor removes anything.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "stage/staged_file.h"

namespace forebay::stage {

struct OpenTarget {
    std::string path;      // absolute, for messages and the log
    int descriptor = -1;   // open on the target, stays the caller's; the engine duplicates it if it needs one
    bool writable = false;
    bool truncated = false;   // opened with O_TRUNC, or just created
};

class Engine {
  public:
    virtual ~Engine() = default;

    static Result<std::unique_ptr<Engine>> create(LoadedOptions options);

    // The state of the file behind `target.descriptor`: the one that exists already in this process, or
    // a new one. A read-only handle on a file nobody stages gets one too (it reads straight through,
    // and sees staged bytes as soon as a writer attaches). When staging is impossible (staging area
    // unusable, ...) and option strict is off, the file is attached in write-through mode with the
    // reason counted, and `warning` (once per engine) says why; with strict on, that is the error.
    struct Attached {
        std::shared_ptr<StagedFile> file;
        std::string warning;   // to be shown once to the user; empty: none
    };
    virtual Result<Attached> attach(const OpenTarget& target) = 0;

    // The end of one handle's use. The last writable handle's detach commits, and waits until
    // everything is in the target (option close). Its Status is that of the data: on failure the staged
    // bytes are kept and the message names the log. The file object stays valid for other handles.
    virtual Status detach(const std::shared_ptr<StagedFile>& file, bool writable) = 0;

    // The staged state of the open file with this identity, or null.
    virtual std::shared_ptr<StagedFile> find(std::uint64_t device, std::uint64_t inode) = 0;

    // A file that stepped aside before it reached the engine (other driver, SWMR, ...): counted.
    virtual void count_aside(log::AsideReason reason, const std::string& path) = 0;

    [[nodiscard]] virtual const LoadedOptions& options() const = 0;
};

}   // namespace forebay::stage
