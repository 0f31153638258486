// A file that this process alone writes, and that a staging server stages. The invariant of LocalFile holds, too.
#pragma once

#include "file/program_file.h"

namespace forebay::file {

class ForwardedFile final : public ProgramFile {
  public:
    // Call `attach` before all else.
    explicit ForwardedFile(std::shared_ptr<stage::Engine> engine) : ProgramFile(std::move(engine)) {}
    ~ForwardedFile() override {
        if (attached_) (void)engine_->detach(file_, true);
    }
    // As LocalFile::attach. Fails as Engine::attach_forwarded.
    Status attach(stage::OpenTarget target) {
        auto writing = engine_->attach_forwarded(std::move(target));
        FOREBAY_TRY(writing.status());
        attached_ = true;
        writing_ = std::move(writing).value();
        file_ = writing_->reader();
        return Status::ok();
    }

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
        attached_ = false;
        return engine_->detach(file_, true, std::move(afterwards));
    }

  private:
    std::shared_ptr<stage::ForwardedWriting> writing_;
    bool attached_ = false;
};

}   // namespace forebay::file
