// Finds bytes that other processes have left of a file, or may still write to it, before the engine opens, empties or
// makes the file. recover::Leftovers looks, and recovers. This class waits for ending processes, words events for the
// user, counts them, and refuses what would mix the bytes of two processes (docs/recovery.md). `looking_` guards
// recover::Leftovers. It is held during a recovery, but not while a call waits for another process. No mutex is taken
// while it is held: calls ask FileTable before. Thread-safety: every call from any thread. In a forked child, and with
// option stage off, nothing is looked for. Blocking: every call, on the staging area, on a recovery of the same file,
// and on processes that may still write.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "recover/leftovers.h"
#include "stage/file_table.h"
#include "stage/statistics.h"

namespace forebay::stage {

class Leftovers {
  public:
    Leftovers(FileContext& context, FileTable& files, Statistics& statistics);

    // The errno of failures below: a process, maybe this one, may still write to the file. It is not known to be dead,
    // and did not end within the option patience. The message names it. No program may open the file, not even to read.
    static constexpr int kUnsettled = EBUSY;

    struct OpenedFile {
        io::Identity identity;
        std::string path;
        bool writable = false;
        bool locked = false;   // as HDF5 does, for reading or writing
        // Locked for writing, so that the file is recovered through it.
        std::shared_ptr<io::Descriptor> descriptor{};
        // Called before the file is recovered, if there is no descriptor: a lock for reading is in the way.
        std::function<void()> give_way{};
        // Also fails, as with option strict, if a dead process's directory cannot be read: its log may be the file's.
        bool all_readable = false;
    };
    // As Engine::recover_before_open, for a file that is open already. Call it before any read of the file, and after
    // its lock if it gets one. Its writer may have died since another look, or while this process waited for the lock.
    // Returns a message for the user, or an empty text. A retryable error, also for reading: the file is in use.
    [[nodiscard]] Result<std::string> recover_opened(OpenedFile file);

    // Before the file at `path` is emptied. Returns ok if the bytes that dead processes have left may be discarded.
    [[nodiscard]] Status admit_emptying(const std::string& path);
    // Before an open file is emptied, or was made. Returns ok if the bytes that dead processes have left, of it or of a
    // file that had its inode number, may be discarded. Fails if this process has closed it with bytes that it could
    // not write.
    [[nodiscard]] Status may_forget(const io::Identity& identity, const std::string& path);
    // After a file was made or emptied: discards these bytes. `open_here`: even if the engine has it in FileTable.
    [[nodiscard]] Status forget_before(const io::Identity& identity, const std::string& path, bool open_here = false);

    // Waits, within option patience, until no process may write the file; else kUnsettled. Returns as recover_opened.
    [[nodiscard]] Result<std::string> await_settled(const OpenedFile& file);
    // Returns kUnsettled at once if a process that is ending, or has given the file up, may still write it.
    [[nodiscard]] Status refuse_unsettled(const OpenedFile& file) { return await_settled(file, 0).status(); }
    // See recover::Leftovers.
    [[nodiscard]] std::uint64_t written_by_others(const io::Identity& identity);
    // A process of this node, dead or alive, may have bytes of this file, or of one of this name, that are not in it.
    [[nodiscard]] bool may_be_staged(const io::Identity& identity, const std::string& path);
    // For tests: how often the areas were listed.
    [[nodiscard]] std::uint64_t listings();

  private:
    [[nodiscard]] Result<std::string> await_settled(const OpenedFile& file, std::uint64_t patience_ns);
    [[nodiscard]] bool looks() const noexcept { return context_.options().stage && !context_.inherited(); }
    Result<std::string> recover_file(const OpenedFile& opened, const log::Birth& born) REQUIRES(looking_);
    // Stranded: a log names this path, but a file with another identity.
    Result<std::string> tell_of_stranded(const OpenedFile& opened, const log::Birth& born) REQUIRES(looking_);
    // Unread: a directory of a dead process that cannot be read.
    Result<std::string> tell_of_unread(std::string said, bool fails) REQUIRES(looking_);
    Status refuse_unread(const io::Identity& identity, const std::string& path, const log::Birth& born = {})
        REQUIRES(looking_);
    Status give_up(const io::Identity& identity, const std::string& path, bool only_ask);

    FileContext& context_;
    FileTable& files_;
    Statistics& statistics_;
    Mutex looking_;
    recover::Leftovers found_ GUARDED_BY(looking_);
};

}   // namespace forebay::stage
