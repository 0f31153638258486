// Recovery of a file that several nodes wrote together with nodes=consistent, on one of the nodes.
// It copies this node's undo journals beside the target. Once all ranks' copies are there, it takes the file back to
// the last commit that any rank has decided; before that it does not touch the file (docs/recovery.md). After a crash
// at any instant, a recovery on any node continues. Blocks on file I/O.
#pragma once

#include <string>

#include "recover/inventory.h"
#include "recover/recovery.h"
#include "recover/report.h"

namespace forebay::recover {

// `path` is the target's present name. `busy` names another recovery of it on this node; ok: none.
[[nodiscard]] FileReport recover_team(const Inventory& inventory, const TeamSession& team, const std::string& path,
                                      const Request& request, const Outside& outside, const Status& busy = {});

// Removes this node's journals and all copies beside the target. Does not touch the file.
[[nodiscard]] FileReport discard_team(const Inventory& inventory, const TeamSession& team, const Discarded& request,
                                      const Outside& outside, const Status& busy = {});

}   // namespace forebay::recover
