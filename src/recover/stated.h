// Applies the board's statement (group/statement.h) to durable logs of several processes (docs/log-format.md).
#pragma once

#include "recover/inventory.h"

namespace forebay::recover {

// Keeps only the stated records of a session's durable logs, in memory; the device stays as it is. Takes commit and
// frontier from the statement, and notes missing or damaged logs. Leaves other sessions alone.
void keep_what_is_stated(Session& session);

}   // namespace forebay::recover
