// Staging areas that somebody else has made up: whatever is in them, nothing crashes, and recovery writes to nothing
// but the file that a log names, and that is it.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "area/process.h"
#include "base/bytes.h"
#include "hostile_area.h"
#include "io/fault_file.h"
#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "log/scan.h"
#include "recover/leftovers.h"
#include "recover/recovery.h"
#include "support/partial_segment.h"

namespace {

using namespace forebay;
using Content = std::vector<std::byte>;

constexpr std::uint64_t kTargetMax = std::uint64_t{4} << 20;
constexpr io::Identity kIdentity{7, 1}, kOther{7, 2};
constexpr std::uint64_t kLivingPid = 65536;   // beyond those that an input can name
const std::string kPath = "/scratch/run.h5", kOtherPath = "/scratch/other.h5";

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

// A file on a device that is soon full, so that a hostile size costs no memory.
class SmallDevice final : public io::ForwardingFile {
  public:
    explicit SmallDevice(std::shared_ptr<io::File> file) : ForwardingFile(std::move(file)) {}
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return room(offset, bytes.size()) ? file().write_at(offset, bytes) : full();
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        std::uint64_t bytes = 0;
        for (const io::Bytes& piece : pieces) bytes += piece.size();
        return room(offset, bytes) ? file().write_gather_at(offset, pieces) : full();
    }
    Status resize(std::uint64_t size) override { return room(size, 0) ? file().resize(size) : full(); }
    Status allocate(std::uint64_t offset, std::uint64_t length) override {
        return room(offset, length) ? file().allocate(offset, length) : full();
    }

  private:
    static bool room(std::uint64_t offset, std::uint64_t bytes) {
        return offset <= kTargetMax && bytes <= kTargetMax - offset;
    }
    static Status full() { return Status::from_errno(ENOSPC, "write to a small device"); }
};

Content pattern(std::size_t size, int salt) {
    Content bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(static_cast<int>(i * 31) + salt);
    return bytes;
}

Content content_of(io::Directory& directory, const std::string& name) {
    auto file = std::move(directory.open_file(name, io::OpenMode::kRead)).value();
    Content bytes(file->size().value());
    (void)file->read_at(0, bytes);
    return bytes;
}

void put(io::Directory& directory, const std::string& name, const Content& bytes) {
    require(bool(std::move(directory.open_file(name, io::OpenMode::kCreateNew)).value()->write_at(0, bytes)),
            "a file in memory takes bytes");
}

// Reads the records of one segment, searches behind the damage, and returns where the valid records end.
std::uint64_t read_records(const Content& segment, std::uint64_t end, log::PayloadCheck check) {
    using Found = log::RecordCursor::Found;
    test::PartialSegment bytes(segment);
    log::RecordCursor cursor(load_le<std::uint64_t>(segment.data() + log::kUseOffset));
    for (; cursor.look(bytes, end, check) == Found::kRecord; cursor.advance()) {
        const log::DecodedRecord& record = cursor.record();
        require(record.bytes >= log::kRecordHeaderBytes && record.bytes <= end - cursor.position(),
                "a record ends at the published end or before");
        require(cursor.payload_position() + record.payload.size() <= cursor.position() + record.bytes,
                "a payload is within its record");
        require((record.header.kind == log::RecordKind::kOpen) == (cursor.position() == log::kSegmentHeaderBytes),
                "a segment has one open record, at its beginning");
    }
    const std::uint64_t valid = cursor.position();
    for (std::uint64_t from = valid; cursor.search(bytes, end) == Found::kRecord; cursor.advance()) {
        require(cursor.position() >= from, "a search goes forwards");
        from = cursor.position() + log::kRecordAlignment;
    }
    require(bytes.in_order(), "the cursor loads forwards, and within the segment");
    return valid;
}

void check_cursor(const Content& log, std::uint64_t less) {
    constexpr std::uint64_t kSmallest = 4096, kUsual = 65536;
    if (log.size() < log::kSegmentHeaderBytes) return;
    std::uint64_t step = load_le<std::uint64_t>(log.data() + 16);
    if (step < kSmallest || step % kSmallest != 0) step = kUsual;
    for (std::uint64_t begin = 0; begin < log.size() && log.size() - begin >= step; begin += step) {
        const auto from = log.begin() + static_cast<std::ptrdiff_t>(begin);
        const Content segment(from, from + static_cast<std::ptrdiff_t>(step));
        const std::uint64_t tail = load_le<std::uint64_t>(segment.data() + log::kTailOffset);
        const std::uint64_t verified = read_records(segment, tail, log::PayloadCheck::kVerify);
        require(verified <= read_records(segment, tail, log::PayloadCheck::kTrust), "verified records are trusted");
        if (tail < less || tail > step) continue;
        require(read_records(segment, tail - less, log::PayloadCheck::kVerify) <= verified, "a lower end has no more");
    }
}

// Two files that recovery can reach by their names, and what must not change.
class World {
  public:
    explicit World(fuzz::HostileArea hostile)
        : hostile_(std::move(hostile)),
          root_(io::make_memory_directory("/")),
          home_(std::move(root_->create_directory("scratch")).value()) {
        put(*home_, "run.h5", before_);
        put(*home_, "other.h5", other_);
        living_ = std::move(hostile_.area->create_directory(std::to_string(kLivingPid) + "-5-0")).value();
        put(*living_, "log", other_);
        put(*hostile_.area, "a file of somebody's", other_);
    }

    recover::Outside outside(const std::shared_ptr<io::FaultPlan>& faults) {
        recover::Outside outside{
            [](const area::ProcessIdentity& process) { return process.pid == kLivingPid; }, hostile_.boot_id,
            [this, faults](const std::string& path) -> Result<io::ExistingFile> {
                const bool run = path == kPath;
                if (!run && path != kOtherPath) return Status(Code::kNotFound, "nothing is called \"" + path + "\"");
                auto file = home_->open_file(run ? "run.h5" : "other.h5", io::OpenMode::kReadWrite);
                std::unique_ptr<io::File> small = std::make_unique<SmallDevice>(std::move(file).value());
                if (faults) small = io::make_fault_file(std::move(small), faults);
                return io::ExistingFile{std::move(small), run ? kIdentity : kOther, 0};
            }};
        outside.open_home = [this](const std::string& path) -> Result<std::unique_ptr<io::Directory>> {
            if (path != kPath && path != kOtherPath)
                return Status(Code::kNotFound, "nothing is called \"" + path + "\"");
            return root_->open_directory("scratch");
        };
        return outside;
    }

    Result<recover::Report> recover(const std::shared_ptr<io::FaultPlan>& faults = nullptr) {
        recover::Request request;
        request.although_changed = (hostile_.flags & fuzz::kAlthoughChanged) != 0;
        request.unasked = (hostile_.flags & fuzz::kUnasked) != 0;
        io::Directory* const areas[] = {hostile_.area.get()};
        const auto report = recover::recover(areas, request, outside(faults));
        if (report) check(report.value());
        return report;
    }

    void check(const recover::Report& report) {
        using recover::Outcome;
        std::map<io::Identity, bool> written;
        for (const recover::FileReport& file : report.files) {
            written[file.identity] |= file.outcome != Outcome::kRefused && file.outcome != Outcome::kComplete;
            require(file.outcome != Outcome::kRefused || !file.status.message().empty(), "a refusal has a reason");
        }
        may_change_[0] |= written[kIdentity];
        may_change_[1] |= written[kOther];
        unharmed();
    }
    void unharmed() {
        require(may_change_[0] || content_of(*home_, "run.h5") == before_, "a file that is not reported is as it was");
        require(may_change_[1] || content_of(*home_, "other.h5") == other_, "a file that is not reported is as it was");
        // Journals of several nodes meet in a folder beside the target, whose name says so.
        const auto names = home_->list();
        for (const std::string& name : names.value())
            require(name == "run.h5" || name == "other.h5" || name.starts_with(".run.h5.forebay-") ||
                        name.starts_with(".other.h5.forebay-"),
                    "no file comes or goes");
        require(content_of(*living_, "log") == other_, "the log of a living process is as it was");
        require(content_of(*hostile_.area, "a file of somebody's") == other_,
                "what is no process directory is as it was");
    }

    [[nodiscard]] Content target() const { return content_of(*home_, "run.h5"); }
    [[nodiscard]] io::Directory& area() { return *hostile_.area; }
    [[nodiscard]] std::uint8_t flags() const { return hostile_.flags; }

  private:
    fuzz::HostileArea hostile_;
    std::unique_ptr<io::Directory> root_, home_, living_;
    const Content before_ = pattern(9000, 1), other_ = pattern(5000, 2);
    bool may_change_[2] = {};
};

}   // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    World world(fuzz::decode({data, size}));
    {
        io::Directory* const areas[] = {&world.area()};
        (void)recover::verify(areas, world.outside(nullptr));
        (void)ledger::read_ledger(world.area());
        const auto names = world.area().list();
        for (const std::string& name : names.value()) {
            auto directory = world.area().open_directory(name);
            if (!directory) continue;
            if (auto file = directory.value()->open_file("log", io::OpenMode::kRead)) {
                (void)log::scan(*file.value());
                (void)log::scan_targets(*file.value());
                check_cursor(content_of(*directory.value(), "log"), size % 200);
            }
        }
        world.unharmed();
    }
    if ((world.flags() & fuzz::kKilled) != 0) {
        auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(1 + size % 7, UINT64_MAX / 2, EIO, size % 5000);
        (void)world.recover(faults);
    }
    const auto report = world.recover();
    if ((world.flags() & fuzz::kTwice) != 0 && report && report.value().all_well()) {
        const Content once = world.target();
        (void)world.recover();
        require(world.target() == once, "a second recovery changes nothing");
    }
    return 0;
}
