// A file that this process writes or reads alone, or that ranks read together.
// Invariant: the engine counts a handle for each attached object, and forgets it once: at `close`, or, after an open
// that failed later, in the destructor. A handle that stays behind would hide the file from the next open's recovery.
#pragma once

#include "base/attempt.h"
#include "file/program_file.h"

namespace forebay::file {

class LocalFile : public ProgramFile {
  public:
    // Call `attach` before all else.
    explicit LocalFile(std::shared_ptr<stage::Engine> engine) : ProgramFile(std::move(engine)) {}
    ~LocalFile() override {
        if (attached_) (void)engine_->detach(file_, writable_);
    }
    // Allocates nothing once the engine has counted the handle. Returns, and fails, as Engine::attach.
    Result<stage::Attached> attach(stage::OpenTarget target) {
        writable_ = target.writable;
        auto attached = engine_->attach(std::move(target));
        attached_ = attached.is_ok();
        if (attached_) file_ = attached.value().file;
        return attached;
    }

    Status write(std::span<const Part> parts, stage::ByteClass byte_class) override {
        return file_->write(parts, byte_class);
    }
    Status read(std::span<const ReadPart> parts) override { return file_->read(parts); }
    Status truncate(std::uint64_t size) override { return file_->truncate(size); }
    void withhold(const Status& why) noexcept override { file_->lifecycle().withhold(copy_of(why, "a write failed")); }
    Status commit() override { return writable_ ? file_->commit() : Status::ok(); }
    Status await_drained() override { return file_->drain(stage::DrainScope::kReady); }
    Status step_aside(ledger::AsideReason reason) override { return file_->lifecycle().step_aside(reason); }
    Status expose_offsets() override { return file_->lifecycle().expose_offsets(); }
    stage::Engine::Detached close(stage::AfterClose afterwards) override {
        attached_ = false;
        return engine_->detach(file_, writable_, std::move(afterwards));
    }

  private:
    bool attached_ = false, writable_ = false;
};

// A file that ranks open together for reading. Each rank reads the file by itself.
class FileReadByRanks final : public LocalFile {
  public:
    using LocalFile::LocalFile;
    // A handle through which this process writes the file exposes the offsets.
    Status expose_offsets() override { return Status::ok(); }
};

}   // namespace forebay::file
