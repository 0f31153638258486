// Files that several participants write together, for tests: their folders, and two ways to drive them.
//
//   Scratch       a folder with a staging area and a target, on a real file system: the participants map each
//                 other's logs, each at addresses of its own;
//   TeamMember    one member of a team with an engine and a shared file of its own (collective calls);
//   Participants  all participants of a node in one thread of the test, which decides the order of their
//                 calls. A collective call is one call for all, as in file::SharedFile.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "area/process.h"
#include "file/shared_file.h"
#include "io/posix_file.h"
#include "log/scan.h"
#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/scratch_folder.h"

namespace forebay::test {

class Scratch {
  public:
    explicit Scratch(const std::vector<std::byte>& content = {}, std::string name = "run.h5") : name_(std::move(name)) {
        EXPECT_NE(path_, "");
        std::filesystem::create_directory(area());
        auto file = std::move(io::open_posix_directory(path_)).value()->open_file(name_, io::OpenMode::kCreateNew);
        EXPECT_TRUE(file.value()->write_at(0, content));
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] std::string area() const { return path_ + "/area"; }
    [[nodiscard]] std::string target() const { return path_ + "/" + name_; }
    [[nodiscard]] stage::Engine::OpenArea opener() const {
        return [path = area()] { return io::open_posix_directory(path); };
    }
    [[nodiscard]] std::vector<std::byte> contents() const {
        auto file = std::move(io::open_posix_directory(path_)).value()->open_file(name_, io::OpenMode::kRead);
        std::vector<std::byte> bytes(file.value()->size().value());
        EXPECT_TRUE(file.value()->read_at(0, bytes));
        return bytes;
    }
    // The folders of the engines, and the content of their logs.
    [[nodiscard]] std::vector<std::string> left() const {
        return std::move(io::open_posix_directory(area())).value()->list().value();
    }
    [[nodiscard]] std::vector<log::ScannedLog> logs() const {
        std::vector<log::ScannedLog> all;
        for (const std::string& name : left()) {
            auto file =
                std::move(io::open_posix_directory(area() + "/" + name)).value()->open_file("log", io::OpenMode::kRead);
            auto scanned = log::scan(*file.value());
            EXPECT_TRUE(scanned) << scanned.status().message();
            if (!scanned) continue;
            for (log::ScannedLog& log : scanned.value()) all.push_back(std::move(log));
        }
        return all;
    }

    // The file after recovery, if all writers died now.
    [[nodiscard]] std::vector<std::byte> recovered() const {
        return recovered([this] { return contents(); }, io::identify(target()).value());
    }
    // Recovers a target at another place.
    [[nodiscard]] std::vector<std::byte> recovered(const std::function<std::vector<std::byte>()>& target,
                                                   const io::Identity& identity) const {
        return test::recovered(*io::open_posix_directory(area()).value(), target, identity);
    }

  private:
    const std::string path_ = make_scratch_folder();
    const std::string name_;
};

// The expected content of a file.
class PlainBytes {
  public:
    void write(std::uint64_t offset, io::Bytes bytes) {
        if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::size_t size) const {
        std::vector<std::byte> bytes(size);
        for (std::size_t i = 0; i < size && offset + i < content.size(); ++i) bytes[i] = content[offset + i];
        return bytes;
    }
    std::vector<std::byte> content;
};

// Options so small that logs are reused often, and a plan is only a few bytes.
inline LoadedOptions tiny_options() {
    LoadedOptions loaded = small_options();
    loaded.options.size = 64 << 10;
    loaded.options.segment = 16 << 10;
    loaded.options.stripe = 4 << 10;
    loaded.options.write_max = 16 << 10;
    return loaded;
}

// One member's part of a file that its team opens together.
class TeamMember {
  public:
    TeamMember(std::shared_ptr<file::Team> team, const Scratch& scratch, LoadedOptions options, int flags = O_RDWR)
        : TeamMember(std::move(team), scratch, stage::Engine::create(std::move(options), scratch.opener()), flags) {}
    using AroundTarget = std::function<std::unique_ptr<io::File>(std::unique_ptr<io::File>)>;
    TeamMember(std::shared_ptr<file::Team> team, const Scratch& scratch, std::shared_ptr<stage::Engine> engine,
               int flags = O_RDWR, const AroundTarget& around = {})
        : engine_(std::move(engine)) {
        const int descriptor = ::open(scratch.target().c_str(), flags | O_CLOEXEC);
        EXPECT_GE(descriptor, 0);
        auto plain = io::adopt_posix_file(descriptor, scratch.target());
        stage::OpenTarget target{around ? around(std::move(plain)) : std::move(plain), true};
        auto opened = file::SharedFile::open(engine_, std::move(target), std::move(team));
        status_ = opened.status();
        if (opened) {
            warning_ = opened.value().warning;
            file_ = opened.value().file;
            staged_ = file_->staged().shared_from_this();
        }
    }

    [[nodiscard]] const Status& opened() const noexcept { return status_; }
    [[nodiscard]] const std::string& warning() const noexcept { return warning_; }
    [[nodiscard]] file::SharedFile& file() const noexcept { return *file_; }
    [[nodiscard]] stage::Engine& engine() const noexcept { return *engine_; }
    [[nodiscard]] ledger::FileCounters counters() const { return staged_->counters(); }

    Status write(std::uint64_t offset, io::Bytes bytes, stage::ByteClass byte_class = stage::ByteClass::kRaw) {
        const stage::StagedFile::Part part{offset, bytes};
        return file_->write({&part, 1}, byte_class);
    }
    Status read_into(std::uint64_t offset, io::MutableBytes into) {
        const stage::StagedFile::ReadPart part{offset, into};
        return file_->read({&part, 1});
    }
    std::vector<std::byte> read(std::uint64_t offset, std::size_t size) {
        std::vector<std::byte> bytes(size, std::byte{0xEE});
        const Status status = read_into(offset, bytes);
        EXPECT_TRUE(status) << status.message();
        return bytes;
    }
    Status close() {
        const Status closed = file_->close();
        file_.reset();
        return closed;
    }

  private:
    std::shared_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> staged_;
    std::shared_ptr<file::SharedFile> file_;
    Status status_;
    std::string warning_;
};

// Wrappers between participants and their files, which outlive both. By default there are none.
struct AroundParticipants {
    std::function<std::unique_ptr<io::Directory>(std::unique_ptr<io::Directory>)> area{};
    std::function<std::unique_ptr<io::File>(std::unique_ptr<io::File>)> target{};
    std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>();   // of the participants' engines
};

class Participants {
  public:
    using Around = AroundParticipants;
    // Participant 0 drains. `plan` makes its target writes fail. With `several_nodes` the participants are those of one
    // of several nodes.
    Participants(std::size_t count, const LoadedOptions& options, std::shared_ptr<io::FaultPlan> plan = nullptr,
                 const std::vector<std::byte>& content = {}, bool several_nodes = false, const Around& around = {}) {
        EXPECT_TRUE(target_.open()->write_at(0, content));
        const auto process = area::identify_this_process();
        const std::vector<area::ProcessIdentity> processes(count, process.value());
        for (std::size_t i = 0; i < count; ++i) {
            engines_.push_back(stage::Engine::create(
                options,
                [plain = scratch_.opener(), wrap = around.area]() -> Result<std::unique_ptr<io::Directory>> {
                    auto area = plain();
                    if (area && wrap) return wrap(std::move(area).value());
                    return area;
                },
                around.clock));
            auto target = target_.open(i == 0 ? plan : nullptr);
            if (around.target) target = around.target(std::move(target));
            auto attached = engines_.back()->attach({std::move(target), true});
            EXPECT_TRUE(attached) << attached.status().message();
            files_.push_back(attached.value().file);
        }
        for (std::size_t i = 0; i < count; ++i) {
            auto board = i == 0 ? group::Board::create(board_file(io::OpenMode::kCreateNew), count,
                                                       options.options.size / options.options.segment + 4, kGroup)
                                : group::Board::open(board_file(io::OpenMode::kReadWrite), count);
            EXPECT_TRUE(board) << board.status().message();
            groups_.push_back(std::make_shared<group::Group>(group::Group::Setup{
                std::move(board).value(), i, 0, processes, options.options.stripe, several_nodes,
                options.options.durability == Durability::kNode && !several_nodes}));
            for (std::size_t other = 0; other < count; ++other) {
                std::unique_ptr<io::File> pool;
                if (i != 0 || other != 0)
                    pool = std::move(engines_[other]->area().directory()->open_file("log", io::OpenMode::kReadWrite))
                               .value();
                groups_.back()->add_log(std::move(pool), options.options.segment);
            }
            EXPECT_TRUE(files_[i]->membership().join(groups_.back(), several_nodes));
        }
        EXPECT_TRUE(files_[0]->membership().begin_statements());
    }
    ~Participants() { listen_no_more(); }

    // Starts the drainer's listener.
    void listen() {
        EXPECT_TRUE(groups_[0]->listen([file = std::weak_ptr(files_[0])](bool room_wanted) {
            const auto alive = file.lock();
            return alive ? alive->membership().poll(room_wanted) : std::nullopt;
        }));
    }
    void listen_no_more() {
        if (!groups_.empty()) groups_[0]->stop_listening();
    }

    [[nodiscard]] std::size_t count() const noexcept { return files_.size(); }
    [[nodiscard]] stage::StagedFile& file(std::size_t i) const { return *files_[i]; }
    [[nodiscard]] group::Group& group(std::size_t i) const { return *groups_[i]; }
    [[nodiscard]] stage::Engine& engine(std::size_t i) const { return *engines_[i]; }
    [[nodiscard]] const Target& target() const noexcept { return target_; }
    [[nodiscard]] const Scratch& scratch() const noexcept { return scratch_; }

    Status write(std::size_t i, std::uint64_t offset, io::Bytes bytes,
                 stage::ByteClass byte_class = stage::ByteClass::kRaw) {
        return files_[i]->write(offset, bytes, byte_class);
    }
    [[nodiscard]] std::vector<std::byte> read(std::size_t i, std::uint64_t offset, std::size_t size) const {
        return test::read(*files_[i], offset, size);
    }
    Status drain() { return files_[0]->drain(); }
    // The file after recovery, if all participants died now.
    [[nodiscard]] std::vector<std::byte> recovered() const {
        return scratch_.recovered([this] { return target_.contents(); }, target_.identity());
    }
    Status commit() {
        for (const auto& file : files_) FOREBAY_TRY(file->membership().sync_own_log());
        const Status outcome = files_[0]->commit();
        groups_[0]->marked();
        return outcome;
    }
    Status truncate(std::uint64_t size) {
        FOREBAY_TRY(files_[0]->truncate(size));
        groups_[0]->marked();
        for (std::size_t i = 1; i < count(); ++i) FOREBAY_TRY(files_[i]->truncate(size));
        return Status::ok();
    }
    // Closes the file. The counters then have their final values.
    Status close() {
        listen_no_more();
        const Status outcome = engines_[0]->detach(files_[0], true);
        groups_[0]->ending().finished();
        for (std::size_t i = 1; i < count(); ++i) {
            EXPECT_TRUE(groups_[i]->ending().wait_until_finished());
            EXPECT_EQ(files_[i]->membership().finish_followed(outcome).code(), outcome.code());
            EXPECT_EQ(engines_[i]->detach(files_[i], true).is_ok(), outcome.is_ok());
        }
        return outcome;
    }
    // Destroys all engines. Their files stay in the scratch folder.
    void end() {
        listen_no_more();
        files_.clear();
        groups_.clear();
        engines_.clear();
    }

  private:
    std::unique_ptr<io::File> board_file(io::OpenMode mode) {
        return std::move(engines_[0]->area().directory()->open_file(
                             group::board_name(files_[0]->state().name.log_number), mode))
            .value();
    }

    static constexpr std::uint64_t kGroup = 77;

    Scratch scratch_;
    Target target_;
    std::vector<std::shared_ptr<stage::Engine>> engines_;
    std::vector<std::shared_ptr<stage::StagedFile>> files_;
    std::vector<std::shared_ptr<group::Group>> groups_;
};

}   // namespace forebay::test
