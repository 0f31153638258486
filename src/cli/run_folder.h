// The folder of one `forebay run` in the temporary folder. It holds the run's record (area/run_record.h) and the
// counters of the processes that the run started (area/run_tally.h).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/launch.h"
#include "cli/stats_reader.h"
#include "io/file.h"

namespace forebay::cli {

// The destructor removes the folder. If this process is killed, the next run removes it: a lock in the folder shows
// that its process died.
class RunFolder {
  public:
    // Puts the folder's path into `variables`. Removes the folders of this user's dead runs.
    explicit RunFolder(Variables& variables);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    // An error means that the activity of the program is unknown.
    [[nodiscard]] Result<Statistics> read() const;

  private:
    Status make(const std::string& temporary);

    std::string path_;
    std::unique_ptr<io::Lock> alive_;
    Status why_not_;
};

}   // namespace forebay::cli
