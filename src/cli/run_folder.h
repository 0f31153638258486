// The folder of one `forebay run` in the temporary folder: its record (area/run_record.h), and the counters of the
// processes that it has started (area/run_tally.h).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/launch.h"
#include "cli/stats_reader.h"
#include "io/file.h"

namespace forebay::cli {

// It goes away with this object, or, if this process is killed, when the next one is made: a lock in it tells.
class RunFolder {
  public:
    // Names it in `variables`. Removes those of this user's runs that have died.
    explicit RunFolder(Variables& variables);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    // An error: it is not known what the program did.
    [[nodiscard]] Result<Statistics> read() const;

  private:
    Status make(const std::string& temporary);

    std::string path_;
    std::unique_ptr<io::Lock> alive_;
    Status why_not_;
};

}   // namespace forebay::cli
