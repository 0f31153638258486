// Durable logs of several processes: what the statement on their board makes of them (docs/log-format.md).
#pragma once

#include "recover/inventory.h"

namespace forebay::recover {

// Of a session whose logs say that they are durable: leaves in its logs the records that the last statement is about,
// and gives them its commit, and the board its frontier. Tells in the session what is missing or damaged. Others stay
// as they are.
void keep_what_is_stated(Session& session);

}   // namespace forebay::recover
