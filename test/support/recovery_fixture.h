// Recovery of files from staging areas that tests make record by record.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <vector>

#include "recover/recovery.h"
#include "support/crash.h"
#include "support/leftover.h"

namespace forebay::test {

inline std::vector<std::byte> joined(std::initializer_list<std::vector<std::byte>> parts) {
    std::vector<std::byte> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}
inline std::vector<std::byte> zeros(std::size_t size) { return std::vector<std::byte>(size); }

class RecoveryTest : public testing::Test {
  protected:
    LeftBehind& process(std::uint64_t pid = 100) {
        processes_.push_back(std::make_unique<LeftBehind>(*area_, pid, boot_id_));
        return *processes_.back();
    }
    // A process with a log of the file, which was empty: 100 bytes, and their commit.
    struct Committed {
        LeftBehind& dead;
        log::FileLog& log;
    };
    Committed committed(std::uint64_t pid = 100) {
        LeftBehind& dead = process(pid);
        log::FileLog& log = dead.open(1, 0);
        dead.write(log, 0, bytes_of(100, 1));
        dead.commit(log, 100);
        return {dead, log};
    }
    // Returns the state after the death of the processes. The target has `content`.
    Crash crash(const std::vector<std::byte>& content = {}) {
        return {*area_, [&] { return content; }, {7, 1}};
    }

    // Returns the only file of the report.
    static recover::FileReport only(Crash& crash, const recover::Request& request = {}) {
        auto report = crash.recover(request);
        EXPECT_TRUE(report) << report.status().message();
        if (report && report.value().files.size() == 1) return report.value().files.front();
        ADD_FAILURE() << "not one file";
        return {};
    }
    // Expects a refusal that changes no file, also when repeated.
    static void expect_refusal(Crash& crash, recover::Reason reason, const recover::Request& request = {}) {
        const auto before = crash.contents();
        const auto left = crash.left();
        for (int i = 0; i < 2; ++i) {
            const recover::FileReport file = only(crash, request);
            EXPECT_EQ(file.outcome, recover::Outcome::kRefused) << recover::outcome_name(file.outcome);
            EXPECT_EQ(file.reason, reason) << recover::reason_name(file.reason) << ": " << file.status.message();
            EXPECT_FALSE(file.status.message().empty());
            EXPECT_FALSE(recover::advice(file).empty());
        }
        EXPECT_TRUE(same(crash.contents(), before));
        EXPECT_EQ(crash.left(), left);
    }

    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/nls/forebay");
    area::BootId boot_id_ = area::identify_this_process().value().boot_id;
    std::vector<std::unique_ptr<LeftBehind>> processes_;
};

}   // namespace forebay::test
