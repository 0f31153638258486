// Recovery of a file that several nodes wrote together with nodes=consistent, on one of the nodes.
//
// This node's undo journals are copied beside the target. Once those of all ranks are there, the file is taken back to
// the last commit that any of them has decided; until then it is not touched. docs/recovery.md tells why each step is
// where it is. May be killed at any instant, and begun again on any node.
#pragma once

#include <string>

#include "recover/inventory.h"
#include "recover/recovery.h"
#include "recover/report.h"

namespace forebay::recover {

// `path`: the target as it is called now. `busy`: who else works on it on this node; ok: nobody.
[[nodiscard]] FileReport recover_team(const Inventory& inventory, const TeamSession& team, const std::string& path,
                                      const Request& request, const Outside& outside, const Status& busy = {});

// Gives up what this node's journals hold, and what lies beside the target of them all. The file is not touched.
[[nodiscard]] FileReport discard_team(const Inventory& inventory, const TeamSession& team, const Discarded& request,
                                      const Outside& outside, const Status& busy = {});

}   // namespace forebay::recover
