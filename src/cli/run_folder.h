// A run's temporary folder, with its record (area/run_record.h) and its processes' counters (area/run_tally.h).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/launch.h"
#include "cli/stats_reader.h"
#include "io/file.h"

namespace forebay::cli {

// The destructor removes it. If this process is killed, the next run of this boot does: a lock in the folder shows that
// it died.
class RunFolder {
  public:
    // Puts the folder's path into `variables`. Removes the folders of this user's dead runs.
    explicit RunFolder(Variables& variables);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    // Reads the record, also if its name is gone. An error means that the activity of the program is unknown.
    [[nodiscard]] Result<Statistics> read() const;
    // An error: the program removed or replaced the record, so processes may have told nothing since.
    [[nodiscard]] Status is_whole() const;

  private:
    Status make(const std::string& temporary);
    [[nodiscard]] std::string record_path() const;

    std::string path_;
    std::unique_ptr<io::File> record_;
    std::unique_ptr<io::Lock> alive_;
    Status why_not_;
};

}   // namespace forebay::cli
