// The files that a staging server stages for its clients: one engine (stage/engine.h) for each.
//
// An engine of its own has a log of its own. So a client's death is to that log what the death of a program is: what
// was not committed is left behind, and recovery, which knows only logs of the dead, brings the file to its last
// commit.
//
// One client writes a file at a time. Thread-safety: all calls from any thread; a ServedFile is one session's.
// Blocking: as opening, draining and recovering the file do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/options.h"
#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "stage/engine.h"
#include "wire/frame.h"

namespace forebay::server {

class ServedFiles;

// Ended by `close` or `abandon`; else its destruction abandons it.
class ServedFile {
  public:
    ~ServedFile();
    ServedFile(const ServedFile&) = delete;
    ServedFile& operator=(const ServedFile&) = delete;

    [[nodiscard]] stage::StagedFile& file() noexcept { return *file_; }
    // Commits and drains. After a failure what is staged stays in the log, for recovery.
    [[nodiscard]] Status close();
    // The client is gone: the file is brought to its last commit. A text for the server's log.
    [[nodiscard]] Result<std::string> abandon();

  private:
    friend class ServedFiles;
    ServedFile(ServedFiles& files, io::Identity identity, std::string path) noexcept;
    void begin_end() noexcept;
    void leave() noexcept;

    ServedFiles& files_;
    const io::Identity identity_;
    const std::string path_;
    std::shared_ptr<io::Descriptor> descriptor_;
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    bool ended_ = false;
};

class ServedFiles {
  public:
    // `options`: those of each file's engine.
    explicit ServedFiles(LoadedOptions options) : options_(std::move(options)) {}

    // kUnsupported: this server cannot have bytes of the file. EBUSY: another client writes it, and does not end soon.
    [[nodiscard]] Result<std::unique_ptr<ServedFile>> open(const wire::Open& request);

  private:
    friend class ServedFile;
    [[nodiscard]] Status enter(const io::Identity& identity, const std::string& path);
    [[nodiscard]] Status attach(ServedFile& served, const wire::Open& request);

    const LoadedOptions options_;
    std::mutex mutex_;
    std::condition_variable left_;
    std::map<io::Identity, bool> open_;   // those that a session has; true: it is about to end
};

}   // namespace forebay::server
