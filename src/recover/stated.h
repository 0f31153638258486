// Applies the board's statement to durable logs of several processes (docs/log-format.md).
#pragma once

#include "recover/inventory.h"

namespace forebay::recover {

// Leaves only the stated records in a session's durable logs, takes commit and frontier from the statement, and notes
// missing or damaged logs. Leaves other sessions alone.
void keep_what_is_stated(Session& session);

}   // namespace forebay::recover
