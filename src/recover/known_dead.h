// Notes of what earlier looks have read in the directories of dead processes: the file `known-dead` of a staging area.
// A look into one directory makes dozens of calls. So a process notes what it read, and later ones read one file.
// INVARIANTS: 1. An entry is of a directory whose process the lock showed dead, and which was read whole. Such a
// process names no more files, so an entry may name more files than its directory still has, never fewer. A user looks
// into a directory itself before it acts on an entry that concerns its file. 2. Every entry has a checksum over the
// boot and itself, so a partial, mixed or older file only has fewer entries. No lock is needed: writers may overwrite
// each other. Ignores failures: without entries, directories are read. Blocks on file I/O. Format: docs/log-format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "area/process.h"
#include "io/file.h"
#include "recover/process_directory.h"

namespace forebay::recover {

inline constexpr const char* kKnownDeadFile = "known-dead";

struct KnownDead {
    std::map<std::string, ProcessDirectory::Files> directories;   // of this boot, by name in the area
    std::uint64_t end = 0;                                        // of the readable part, in bytes
    std::uint64_t entries = 0;                                    // in it, also of other boots
};

// Reads a file that only this user may write.
[[nodiscard]] KnownDead read_known_dead(io::Directory& area, const area::BootId& boot);
// Writes entries from offset `end` on.
void write_known_dead(io::Directory& area, const area::BootId& boot, std::uint64_t end,
                      const std::map<std::string, const ProcessDirectory::Files*>& entries);

}   // namespace forebay::recover
