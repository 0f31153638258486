// Members of a team recover, each on its own node, a file that they are about to open together. Nodes with parts of one
// file take turns; only the last finds the file whole. So a failed member looks again while that may help.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "file/team.h"

namespace forebay::file {

// Recovers the file from the logs of dead processes. Returns a text for the user, empty without logs. An error: a log
// cannot be used; retryable: another process uses the file. A member without an error does not look again.
using Look = std::function<Result<std::string>()>;

struct Looked {
    Status mine;                  // outcome of this member's last look
    std::string say;              // text that this member shows for all; may be empty
    bool first_to_fail = false;   // this is the lowest rank with an error, and no member has recovered anything
};

// Collective. All members decide alike, from the outcomes of all. A member looks at most `team.size() + 3` times. The
// returned error is the team's; the outcome of the looks is in `Looked`.
[[nodiscard]] Result<Looked> recover_collectively(Team& team, const Look& look);

}   // namespace forebay::file
