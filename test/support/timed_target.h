// A target in memory with times, as a local file system has them. Other writers may change it meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "io/forwarding_file.h"
#include "io/posix_file.h"

namespace forebay::test {

class TimedTarget {
  public:
    [[nodiscard]] io::ExistingFile seen(io::ExistingFile existing) {
        existing.modified_ns = state->modified_ns;
        existing.set_modified = [this](std::uint64_t modified_ns) {
            ++set_back;
            state->modified_ns = modified_ns;
            state->changed_ns = ++now_ns;
            return Status::ok();
        };
        existing.file = std::make_unique<File>(std::move(existing.file), *this);
        return existing;
    }
    void changed_by_others() { state->modified_ns = state->changed_ns = ++now_ns; }

    std::shared_ptr<io::FileState> state = std::make_shared<io::FileState>();
    std::uint64_t now_ns = realtime_ns();   // grows a little with each change
    std::uint64_t changes = 0, set_back = 0;
    // Called with the file before its nth change, so that a test can write to it as another process.
    std::function<void(std::uint64_t nth, io::File& file)> before_change;
    io::TimesKind kind = io::TimesKind::kExact;

  private:
    class File final : public io::ForwardingFile {
      public:
        File(std::shared_ptr<io::File> file, TimedTarget& target) : ForwardingFile(std::move(file)), target_(target) {}
        io::FileTraits traits() override {
            io::FileTraits traits = ForwardingFile::traits();
            traits.times = target_.kind;
            return traits;
        }
        Result<io::FileState> state(Ask) override {
            // Runs before recovery compares, so that recovery sees changes by other writers.
            if (const auto others = target_.before_change) others(target_.changes, file());
            const auto size = ForwardingFile::size();
            if (!size) return size.status();
            io::FileState now = *target_.state;
            now.size = size.value();
            return now;
        }
        Status write_at(std::uint64_t offset, io::Bytes bytes) override {
            return changed(ForwardingFile::write_at(offset, bytes));
        }
        Status resize(std::uint64_t size) override { return changed(ForwardingFile::resize(size)); }
        Status punch(std::uint64_t offset, std::uint64_t length) override {
            return changed(ForwardingFile::punch(offset, length));
        }

      private:
        Status changed(Status done) {
            ++target_.changes;
            target_.changed_by_others();
            return done;
        }
        TimedTarget& target_;
    };
};

}   // namespace forebay::test
