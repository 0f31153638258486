// Processes that are ending, and have not come to their end: one of their threads may be in a call that does not
// return, and may still write to a file.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string_view>

#include "base/status.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "recover/inventory.h"

namespace forebay::recover {

// How the process whose directory this is uses the file: by its ledger, or, where that does not tell, by its log. An
// error: neither tells, or the system lacks what it takes to look (lacks_resources). With `path` a file that was opened
// by this path counts, too.
[[nodiscard]] Result<ledger::FileUse> use_of(io::Directory& directory, const io::Identity& identity,
                                             std::string_view path = {});

// Waits until no process that is seen to be ending has one of `files` open; of all files, if there are none. At most so
// long; those that are left then are reported as living. `waiting` is told of each process, before. Blocks.
void await_ending(std::span<io::Directory* const> areas, const std::set<io::Identity>& files,
                  io::Directory::Patience patience,
                  const std::function<void(const area::ProcessIdentity& process)>& waiting);

}   // namespace forebay::recover
