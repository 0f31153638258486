// Ranks of several nodes that keep undo journals of one target, all in memory, and recovery on each node.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "area/process.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "recover/gathering.h"
#include "recover/recovery.h"
#include "support/engine_fixture.h"
#include "support/forwarding_directory.h"
#include "undo/undo_journal.h"

namespace forebay::test {

class TeamWorld {
  public:
    static constexpr std::uint64_t kTeam = 0xabc;

    // `node_of[rank]` is the node of the rank.
    TeamWorld(std::vector<std::size_t> node_of, const std::vector<std::byte>& content,
              std::uint64_t journal_bytes_max = 1 << 30)
        : node_of_(std::move(node_of)) {
        target_ = std::move(home_->open_file("run.h5", io::OpenMode::kCreateNew)).value();
        EXPECT_TRUE(target_->write_at(0, content));
        const std::size_t nodes = *std::max_element(node_of_.begin(), node_of_.end()) + 1;
        for (std::size_t node = 0; node < nodes; ++node)
            areas_.push_back(io::make_memory_directory("/node" + std::to_string(node) + "/forebay"));
        for (std::size_t rank = 0; rank < node_of_.size(); ++rank) {
            auto directory =
                std::move(areas_[node_of_[rank]]->create_directory(std::to_string(100 + rank) + "-5-0")).value();
            auto file = std::move(directory->open_file(undo::undo_name(1), io::OpenMode::kCreateNew)).value();
            const undo::UndoHeader header{kTeam, rank, node_of_.size(),  {100 + rank, 5, boot_id_},
                                          7,     1,    "/scratch/run.h5"};
            auto journal = undo::UndoJournal::create(std::move(file), header, content.size(), journal_bytes_max);
            EXPECT_TRUE(journal) << journal.status().message();
            journals_.push_back(std::move(journal).value());
            std::shared_ptr<io::File> shared = std::move(home_->open_file("run.h5", io::OpenMode::kReadWrite)).value();
            files_.push_back(undo::make_guarded_file(shared, journals_.back(),
                                                     [this](std::uint64_t bytes) { given_up += bytes; }));
        }
    }

    [[nodiscard]] std::size_t ranks() const noexcept { return node_of_.size(); }
    [[nodiscard]] std::size_t nodes() const noexcept { return areas_.size(); }
    [[nodiscard]] undo::UndoJournal& journal(std::size_t rank) const { return *journals_[rank]; }
    [[nodiscard]] io::File& file(std::size_t rank) const { return *files_[rank]; }
    [[nodiscard]] io::Directory& area(std::size_t node) const { return *areas_[node]; }
    [[nodiscard]] io::Directory& home() const { return *home_; }
    [[nodiscard]] std::unique_ptr<io::File> journal_file(std::size_t rank) const {
        return std::move(areas_[node_of_[rank]]
                             ->open_directory(std::to_string(100 + rank) + "-5-0")
                             .value()
                             ->open_file(undo::undo_name(1), io::OpenMode::kReadWrite))
            .value();
    }
    void meet() {
        for (const auto& journal : journals_) journal->step();
        for (const auto& journal : journals_) journal->step();
    }
    [[nodiscard]] std::vector<std::byte> contents() const {
        std::vector<std::byte> bytes(target_->size().value());
        EXPECT_TRUE(target_->read_at(0, bytes));
        return bytes;
    }
    [[nodiscard]] std::vector<std::string> bypasses() const {
        auto names = std::move(home_->list()).value();
        std::erase(names, "run.h5");
        return names;
    }
    [[nodiscard]] bool left(std::size_t node) const { return !areas_[node]->list().value().empty(); }

    // Runs `forebay recover` on a node. With `killed_at` every call from that one on fails, on the staging area and
    // beside the target, as after a kill. Sets `killed` if the kill happened.
    Result<recover::Report> recover(std::size_t node, std::uint64_t killed_at = 0, recover::Request request = {}) {
        faults_.reset();
        if (killed_at > 0) {
            faults_ = std::make_shared<io::FaultPlan>();
            faults_->fail_any(killed_at, UINT64_MAX - killed_at, EIO, tears || killed_at % 3 == 0 ? 10 : 0);
        }
        const auto seen = through_faults(*areas_[node]);
        io::Directory* const areas[] = {seen.get()};
        auto report = recover::recover(areas, request, outside());
        killed = faults_ != nullptr && faults_->fired() > 0;
        return report;
    }
    recover::Outside outside() {
        recover::Outside outside{alive, boot_id_, [this](const std::string&) -> Result<io::ExistingFile> {
                                     ++opened;
                                     if (!target_status) return target_status;
                                     auto file = home_->open_file("run.h5", io::OpenMode::kReadWrite);
                                     if (!file) return file.status();
                                     auto whole = faults_ == nullptr
                                                      ? std::move(file).value()
                                                      : io::make_fault_file(std::move(file).value(), faults_);
                                     io::ExistingFile existing{std::move(whole), {7, 1}, modified_ns};
                                     return seen_as ? seen_as(std::move(existing)) : std::move(existing);
                                 }};
        outside.identify = [this](const std::string& path) -> Result<io::Identity> {
            if (!target_named) return Status(Code::kNotFound, "stat " + path);
            return io::Identity{7, 1};
        };
        outside.open_home = [this](const std::string&) -> Result<std::unique_ptr<io::Directory>> {
            return through_faults(home_shown != nullptr ? *home_shown : *home_);
        };
        return outside;
    }
    // Recovers without a kill. Returns the only file of the report.
    recover::FileReport recovered(std::size_t node, const recover::Request& request = {}) {
        auto report = recover(node, 0, request);
        EXPECT_TRUE(report) << report.status().message();
        if (report && report.value().files.size() == 1) return report.value().files.front();
        ADD_FAILURE() << "not one file";
        return {};
    }

    std::uint64_t given_up = 0;
    bool killed = false;
    bool tears = false;   // a kill lets 10 bytes of the write through; else only at every third kill point
    std::uint64_t modified_ns = 0;
    std::uint64_t opened = 0;   // number of opens of the target, also failed ones
    Status target_status;       // result of opening the target
    // Wraps the target that recovery opens; empty: no wrapper.
    std::function<io::ExistingFile(io::ExistingFile file)> seen_as;
    bool target_named = true;              // the target exists under its name
    io::Directory* home_shown = nullptr;   // the target's directory, as recovery sees it; null: as it is
    recover::IsAlive alive = [](const area::ProcessIdentity&) { return false; };

  private:
    std::unique_ptr<io::Directory> through_faults(io::Directory& directory) {
        auto plain = std::make_unique<BorrowedDirectory>(directory);
        if (faults_ == nullptr) return plain;
        return io::make_fault_directory(std::move(plain), faults_);
    }

    std::vector<std::size_t> node_of_;
    std::unique_ptr<io::Directory> home_ = io::make_memory_directory("/scratch");
    std::unique_ptr<io::File> target_;
    std::vector<std::unique_ptr<io::Directory>> areas_;
    std::vector<std::shared_ptr<undo::UndoJournal>> journals_;
    std::vector<std::shared_ptr<io::File>> files_;
    area::BootId boot_id_ = area::identify_this_process().value().boot_id;
    std::shared_ptr<io::FaultPlan> faults_;
};

}   // namespace forebay::test
