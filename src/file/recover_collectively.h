// The members of a team look, each on its own node, at what dead processes have left of a file that they are about to
// open together.
//
// What one of them finds depends on what the others have done: nodes that recover parts of one file take turns at it,
// and of those that have to recover it together only the last one finds it whole. So whoever could not use what is
// there looks again while that may help.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "file/team.h"

namespace forebay::file {

// `look` brings home what is there, and gives what there is to say of it; empty: nothing was there. Its error: it
// cannot be used, retryable if somebody else has the file in use. Whoever had no error is not asked again.
using Look = std::function<Result<std::string>()>;

struct Looked {
    Status mine;       // of this member's last look
    std::string say;   // what this member is to tell the user, as one for all; empty: nothing, or somebody else does
    bool first_to_fail = false;   // the lowest rank with an error, where nobody has recovered anything
};

// Collective. Every member takes the same decisions, from what all have told. No member looks more often than three
// times more than the team has members. The error is that of the team; what was found is in `Looked`.
[[nodiscard]] Result<Looked> recover_collectively(Team& team, const Look& look);

}   // namespace forebay::file
