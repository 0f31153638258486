// A copy in memory of the files that a process would leave if it died now. Tests can run recovery on it repeatedly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "area/process.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "recover/recovery.h"
#include "support/forwarding_directory.h"

namespace forebay::test {

class Crash {
  public:
    using Content = std::vector<std::byte>;

    // Copies a staging area and one file. It copies the logs before the target, so bytes that drain meanwhile are in
    // both.
    Crash(io::Directory& area, const std::function<Content()>& target, const io::Identity& identity)
        : Crash(area, target, identity, true) {}
    Crash(Crash& other) : Crash(*other.area_, [&] { return other.contents(); }, other.identity_, false) {
        boot_id = other.boot_id;
        modified_ns = other.modified_ns;
        booted_ns = other.booted_ns;
    }

    // Lets every call from the `nth` on fail, as if recovery were killed there.
    void kill_at(std::uint64_t nth, std::size_t bytes_done_first = 0) {
        faults_ = std::make_shared<io::FaultPlan>();
        faults_->fail_any(nth, UINT64_MAX - nth, EIO, bytes_done_first);
    }
    [[nodiscard]] bool killed() const { return faults_ != nullptr && faults_->fired() > 0; }
    void live_again() { faults_.reset(); }

    [[nodiscard]] recover::Outside outside() {
        recover::Outside outside{[this](const area::ProcessIdentity& process) { return alive(process); }, boot_id,
                                 [this](const std::string& path) { return open_target(path); }};
        outside.booted_ns = booted_ns;
        outside.open_home = [this](const std::string&) -> Result<std::unique_ptr<io::Directory>> {
            return std::unique_ptr<io::Directory>(std::make_unique<BorrowedDirectory>(*home_));
        };
        return outside;
    }
    Result<recover::Report> recover(const recover::Request& request = {}) {
        auto seen = faulty();
        io::Directory* const areas[] = {seen.get()};
        return recover::recover(areas, request, outside());
    }
    // Recovers one file, and expects that recovery succeeds completely.
    recover::FileReport recovered() {
        auto report = recover();
        EXPECT_TRUE(report) << report.status().message();
        if (!report || report.value().files.size() != 1) {
            ADD_FAILURE() << "not one file";
            return {};
        }
        const recover::FileReport& file = report.value().files.front();
        EXPECT_TRUE(report.value().all_well()) << file.status.message();
        EXPECT_EQ(left(), std::vector<std::string>{});
        return file;
    }

    [[nodiscard]] Content contents() const {
        auto file = std::move(home_->open_file("run.h5", io::OpenMode::kRead)).value();
        Content bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }
    void put_target(const Content& content) {
        (void)home_->remove_file("run.h5");
        EXPECT_TRUE(home_->open_file("run.h5", io::OpenMode::kCreateNew).value()->write_at(0, content));
    }
    [[nodiscard]] std::vector<std::string> left() const { return std::move(area_->list()).value(); }
    [[nodiscard]] io::Directory& area() noexcept { return *area_; }
    // Opens a file in the only process directory, or the named one.
    [[nodiscard]] std::unique_ptr<io::File> file(const std::string& name, const std::string& directory = {}) {
        auto at = area_->open_directory(directory.empty() ? left().front() : directory);
        return std::move(std::move(at).value()->open_file(name, io::OpenMode::kReadWrite)).value();
    }

    std::function<bool(const area::ProcessIdentity&)> alive = [](const area::ProcessIdentity&) { return false; };
    area::BootId boot_id = area::identify_this_process().value().boot_id;
    std::uint64_t modified_ns = 0;   // time of the last write to the target
    std::uint64_t booted_ns = 0;     // begin of the boot; 0: unknown
    Status target_status;            // result of opening the target
    // Wraps the target that recovery opens; empty: no wrapper.
    std::function<io::ExistingFile(io::ExistingFile file)> seen_as;
    std::vector<std::string> asked_for;   // paths that recovery opened

  private:
    // `changing` says that other threads may write to the logs meanwhile.
    Crash(io::Directory& area, const std::function<Content()>& target, const io::Identity& identity, bool changing)
        : area_(io::make_memory_directory("/nls/forebay")),
          home_(io::make_memory_directory("/scratch")),
          identity_(identity) {
        for (const bool logs : {true, false}) copy(area, *area_, logs, changing);
        put_target(target());
    }
    static Content all_of(io::File& file) {
        Content bytes(file.size().value());
        EXPECT_TRUE(file.read_at(0, bytes));
        return bytes;
    }
    // Copies a log so that it is a state that a death can leave. Its owner might release segments during a plain copy.
    static Content at_one_instant(io::File& file) {
        for (Content before = all_of(file);;) {
            Content after = all_of(file);
            if (after == before) return after;
            before = std::move(after);
        }
    }
    // Skips zeros, which a file in memory has anyway. Most of a log is zeros.
    static void write_sparsely(io::File& file, const Content& content) {
        static constexpr std::array<std::byte, 4096> kZeros{};
        EXPECT_TRUE(file.resize(content.size()));
        for (std::size_t at = 0; at < content.size(); at += kZeros.size()) {
            const auto page = io::Bytes(content).subspan(at, std::min(kZeros.size(), content.size() - at));
            if (std::memcmp(page.data(), kZeros.data(), page.size()) == 0) continue;
            EXPECT_TRUE(file.write_at(at, page));
        }
    }
    static void copy(io::Directory& from, io::Directory& to, bool logs, bool changing) {
        const std::vector<std::string> names = std::move(from.list()).value();
        for (const std::string& name : names) {
            if (from.facts(name).value().kind == io::Facts::Kind::kDirectory) {
                auto inner = to.open_directory(name);
                if (!inner) inner = to.create_directory(name);
                copy(*from.open_directory(name).value(), *inner.value(), logs, changing);
            } else if ((name == "log") == logs) {
                const auto source = std::move(from.open_file(name, io::OpenMode::kRead)).value();
                write_sparsely(*to.open_file(name, io::OpenMode::kCreateNew).value(),
                               logs && changing ? at_one_instant(*source) : all_of(*source));
            }
        }
    }
    std::unique_ptr<io::Directory> faulty() {
        auto plain = std::make_unique<BorrowedDirectory>(*area_);
        if (faults_ == nullptr) return plain;
        return io::make_fault_directory(std::move(plain), faults_);
    }
    Result<io::ExistingFile> open_target(const std::string& path) {
        asked_for.push_back(path);
        if (!target_status) return target_status;
        auto file = home_->open_file("run.h5", io::OpenMode::kReadWrite);
        if (!file) return file.status();
        auto whole = faults_ == nullptr ? std::move(file).value()
                                        : io::make_fault_file(std::move(file).value(), faults_);
        io::ExistingFile existing{std::move(whole), identity_, modified_ns};
        return seen_as ? seen_as(std::move(existing)) : std::move(existing);
    }

    std::unique_ptr<io::Directory> area_, home_;
    io::Identity identity_;
    std::shared_ptr<io::FaultPlan> faults_;
};

inline Crash::Content recovered(io::Directory& area, const std::function<Crash::Content()>& target,
                                const io::Identity& identity) {
    Crash crash(area, target, identity);
    (void)crash.recovered();
    return crash.contents();
}

}   // namespace forebay::test
