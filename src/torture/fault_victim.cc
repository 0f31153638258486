#include "torture/fault_victim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "area/staging_area.h"
#include "io/fault_file.h"
#include "io/forwarding_file.h"
#include "io/posix_file.h"
#include "stage/engine.h"
#include "torture/fault_case.h"
#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

namespace {

// A file that lies about its writes, as a faulty device does.
class LyingFile final : public io::ForwardingFile {
  public:
    LyingFile(std::shared_ptr<io::File> file, Spoil spoil) : ForwardingFile(std::move(file)), spoil_(spoil) {}
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return write_gather_at(offset, std::span(&bytes, 1));
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        constexpr std::uint64_t kLost = 3;
        if ((writes_.fetch_add(1) + 1) % kLost == 0 && spoil_ == Spoil::kLoss) return Status::ok();
        FOREBAY_TRY(file().write_gather_at(offset, pieces));
        if (spoil_ != Spoil::kByte || pieces.empty() || pieces.front().empty()) return Status::ok();
        const std::byte other = ~pieces.front().front();
        return file().write_at(offset, io::Bytes(&other, 1));
    }

  private:
    const Spoil spoil_;
    std::atomic<std::uint64_t> writes_{0};
};

[[noreturn]] void wait_to_be_killed() {
    for (;;) ::pause();
}

class Witness {
  public:
    Witness(const io::FaultPlan& plan, Spoil spoil) : plan_(plan), silent_(spoil == Spoil::kSilence) {}
    void tell_of(const Status& outcome, std::string_view good, std::string_view bad) {
        meet();
        if (const std::string_view what = outcome || silent_ ? good : bad; !what.empty()) (void)tell(what);
    }
    // Returns true if a call met the fault, and reports that once.
    bool meet() {
        if (!met_ && plan_.fired() > 0) {
            met_ = true;
            (void)tell("f");
        }
        return met_;
    }
    [[nodiscard]] bool silent() const noexcept { return silent_; }

  private:
    const io::FaultPlan& plan_;
    const bool silent_;
    bool met_ = false;
};

void follow_faulty_workload(stage::StagedFile& file, const VictimOrder& order, Witness& witness) {
    Workload workload(order.seed);
    std::vector<std::byte> buffer;
    bool given_up = false;
    for (std::uint64_t done = 0; done < order.operations; ++done) {
        if (order.spoil == Spoil::kHang && done == order.operations / 2) wait_to_be_killed();
        const Operation operation = workload.next();
        const Status outcome = perform(file, operation, buffer);
        if (const bool now = file.counters().guarantee_given_up > 0; now != given_up) {
            given_up = now;
            (void)tell("g");
        }
        if (operation.kind == Operation::Kind::kCommit) {
            witness.tell_of(outcome, "c", "x");
        } else {
            witness.tell_of(outcome, "", fmt::format("w{};", done));
            if (!outcome && !witness.silent()) return;
        }
    }
}

Result<std::unique_ptr<io::File>> open_target(const VictimOrder& order) {
    const int descriptor = ::open(order.file.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return Status::from_errno(errno, "open " + order.file);
    auto file = io::adopt_posix_file(descriptor, order.file);
    if (order.spoil == Spoil::kByte || order.spoil == Spoil::kLoss)
        file = std::make_unique<LyingFile>(std::move(file), order.spoil);
    return file;
}

}   // namespace

Status live_with_a_fault(const VictimOrder& order, const LoadedOptions& loaded) {
    const FaultKind* const kind = find_fault_kind(order.fault);
    if (kind == nullptr) return {Code::kInvalidArgument, order.fault + ": there is no fault of this name"};
    const auto plan = std::make_shared<io::FaultPlan>();
    const auto engine = stage::Engine::create(loaded, [&]() -> Result<std::unique_ptr<io::Directory>> {
        auto area = area::open_staging_area(loaded);
        if (!area) return area.status();
        auto directory = std::move(area.value().directory);
        return kind->of_target ? std::move(directory) : io::make_fault_directory(std::move(directory), plan);
    });
    auto target = open_target(order);
    if (!target) return target.status();
    auto faulty = std::move(target).value();
    if (kind->of_target) faulty = io::make_fault_file(std::move(faulty), plan);
    auto attached = engine->attach({std::move(faulty), true});
    if (!attached) return attached.status();
    const std::shared_ptr<stage::StagedFile> file = attached.value().file;
    if (!file->staged()) return {Code::kInternal, order.file + " is not staged: " + attached.value().warning};
    plan->fail(kind->operation, order.nth, order.for_ever ? UINT64_MAX : 1, kind->sys_errno, kind->bytes_done_first);

    Witness witness(*plan, order.spoil);
    follow_faulty_workload(*file, order, witness);
    if (plan->fired() == 0 && file->counters().staged == 0)
        return {Code::kInternal, order.file + ": nothing of it was staged"};
    if (order.close) {
        witness.tell_of(engine->detach(file, true), "o", "e");
        return Status::ok();
    }
    // A background drain may still meet the fault. The call of `drain` does, if bytes are pending.
    if (!witness.meet()) {
        (void)file->drain();
        if (!witness.meet()) return Status::ok();   // the parent then judges no file
    }
    wait_to_be_killed();
}

}   // namespace forebay::torture
