// One directory of a dead process, for a caller that knows better than to look into all of them.
#pragma once

#include <string>

#include "io/file.h"

namespace forebay::ledger {

// As remove_leftovers (ledger/ledger.h), of the process directory of this name only.
void remove_leftover(io::Directory& area, const std::string& name);

}   // namespace forebay::ledger
