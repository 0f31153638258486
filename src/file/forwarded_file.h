// A file that this process alone writes, and that a staging server stages.
#pragma once

#include "file/program_file.h"

namespace forebay::file {

class ForwardedFile final : public ProgramFile {
  public:
    // Adopts the result of an `Engine::attach_forwarded`.
    ForwardedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<stage::ForwardedWriting> writing)
        : ProgramFile(std::move(engine), writing->reader()), writing_(std::move(writing)) {}

    Status write(std::span<const Part> parts, stage::ByteClass byte_class) override {
        return writing_->write(parts, byte_class);
    }
    Status read(std::span<const ReadPart> parts) override { return file_->read(parts); }
    Status truncate(std::uint64_t size) override { return writing_->truncate(size); }
    void withhold(const Status& why) noexcept override { writing_->withhold(why); }
    Status commit() override { return writing_->commit(); }
    // The server decides when the bytes drain.
    Status await_drained() override { return file_->drain(stage::DrainScope::kReady); }
    Status step_aside(ledger::AsideReason reason) override { return writing_->step_aside(reason); }
    Status expose_offsets() override { return writing_->expose_offsets(); }
    stage::Engine::Detached close(stage::AfterClose afterwards) override {
        return engine_->detach(file_, true, std::move(afterwards));
    }

  private:
    const std::shared_ptr<stage::ForwardedWriting> writing_;
};

}   // namespace forebay::file
