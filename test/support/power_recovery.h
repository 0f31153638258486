// Recovery after a power loss (power.h), as an open of a file makes it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "area/process.h"
#include "recover/recovery.h"
#include "support/no_thread.h"
#include "support/power.h"

namespace forebay::test {

// The names of the staging area and the target on the devices.
inline constexpr const char* kArea = "area";
inline constexpr const char* kTarget = "target";

struct Recovered {
    Power::Content content;
    std::string refused;   // why a file or a directory was not recovered
};

// Runs recovery as an open of the file does: on a restarted machine or, if all bytes survived, in the next process.
// `fails` runs of it fail in the same way before one succeeds.
inline Recovered recover_unasked(std::map<std::string, Power::Content> devices, std::mt19937_64& random, int failures,
                                 Power::Loses loses = Power::Loses::kWhatWasNotSynced) {
    const area::BootId boot = loses == Power::Loses::kNothing ? area::identify_this_process().value().boot_id
                                                              : area::BootId{};
    for (;;) {
        const bool fails = failures-- > 0;
        Power power(random(), loses);
        auto area = area_from(devices, kArea);
        auto home = io::make_memory_directory("/scratch");
        EXPECT_TRUE(home->open_file("run.h5", io::OpenMode::kCreateNew).value()->write_at(0, devices[kTarget]));
        Recovered result;
        {
            auto seen = power.wrap(std::move(area), kArea);
            // After a restart the current content is on the devices.
            const std::vector<std::string> directories = std::move(seen->list()).value();
            for (const std::string& name : directories) {
                auto directory = std::move(seen->open_directory(name)).value();
                const std::vector<std::string> files = std::move(directory->list()).value();
                for (const std::string& file : files)
                    EXPECT_TRUE(directory->open_file(file, io::OpenMode::kReadWrite).value()->sync());
            }
            EXPECT_TRUE(
                power.wrap(std::move(home->open_file("run.h5", io::OpenMode::kReadWrite)).value(), kTarget)->sync());
            if (fails) power.arm(1 + random() % 60, Power::Calls::kAny);
            recover::Outside outside{
                [](const area::ProcessIdentity&) { return false; }, boot,
                [&](const std::string&) -> Result<io::ExistingFile> {
                    return io::ExistingFile{
                        power.wrap(std::move(home->open_file("run.h5", io::OpenMode::kReadWrite)).value(), kTarget),
                        {7, 1},
                        0};
                }};
            if (random() % 2 == 0) outside.start_thread = no_thread;   // makes the runs deterministic
            recover::Request request;
            request.unasked = true;
            io::Directory* const areas[] = {seen.get()};
            const auto report = recover::recover(areas, request, outside);
            EXPECT_TRUE(report) << report.status().message();
            if (report) {
                for (const auto& file : report.value().files)
                    if (file.outcome == recover::Outcome::kRefused || file.outcome == recover::Outcome::kFailed)
                        result.refused += file.status.message();
                for (const auto& directory : report.value().refused) result.refused += directory.status.message();
            }
        }
        if (fails) {
            power.fail_now();
            devices = power.devices();
            continue;
        }
        auto file = std::move(home->open_file("run.h5", io::OpenMode::kRead)).value();
        result.content.resize(file->size().value());
        EXPECT_TRUE(file->read_at(0, result.content));
        return result;
    }
}

}   // namespace forebay::test
