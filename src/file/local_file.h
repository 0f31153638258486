// A file that this process writes or reads alone, or that ranks read together.
#pragma once

#include "base/attempt.h"
#include "file/program_file.h"

namespace forebay::file {

class LocalFile : public ProgramFile {
  public:
    // Adopts the result of an `Engine::attach`. `writable` is true if the file was attached for writing.
    LocalFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<stage::StagedFile> file, bool writable)
        : ProgramFile(std::move(engine), std::move(file)), writable_(writable) {}

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
        return engine_->detach(file_, writable_, std::move(afterwards));
    }

  private:
    const bool writable_;
};

// A file that ranks open together for reading. Each rank reads the file by itself.
class FileReadByRanks final : public LocalFile {
  public:
    FileReadByRanks(std::shared_ptr<stage::Engine> engine, std::shared_ptr<stage::StagedFile> file)
        : LocalFile(std::move(engine), std::move(file), false) {}
    // A handle through which this process writes the file exposes the offsets.
    Status expose_offsets() override { return Status::ok(); }
};

}   // namespace forebay::file
