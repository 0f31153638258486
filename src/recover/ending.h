// Processes that are ending: one of their threads may be in a call that does not return, and may still write to a file.
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

// From the ledger of `directory` or, failing that, its log. Counts a file opened by `path`, if given. Errors: neither
// tells, or descriptors or memory are lacking (lacks_resources).
[[nodiscard]] Result<ledger::FileUse> use_of(io::Directory& directory, const io::Identity& identity,
                                             std::string_view path = {});

// Waits until no ending process has one of `files` open; with no files, any file. Calls `waiting` before each wait.
// Returns at the latest after `patience`; recovery then reports the rest as living. Blocks.
void await_ending(std::span<io::Directory* const> areas, const std::set<io::Identity>& files,
                  io::Directory::Patience patience,
                  const std::function<void(const area::ProcessIdentity& process)>& waiting);

}   // namespace forebay::recover
