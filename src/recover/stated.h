// Compares the logs of several processes with their board (docs/log-format.md): with the statement on it
// (group/statement.h) if they are durable, else with its rows.
#pragma once

#include "recover/inventory.h"

namespace forebay::recover {

// Keeps only the stated records of a session's durable logs, in memory; the device stays as it is. Takes commit and
// frontier from the statement, and notes missing or damaged logs. Of other sessions of several processes it only notes
// a missing log, unless they are damaged.
void keep_what_is_stated(Session& session);

}   // namespace forebay::recover
