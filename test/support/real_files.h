// An engine's files in a folder on a real file system, for tests that inspect it from outside.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/posix_file.h"
#include "support/engine_fixture.h"
#include "support/scratch_folder.h"

namespace forebay::test {

// The caller keeps the ownership of the descriptor.
inline std::unique_ptr<io::File> file_of(int descriptor, const std::filesystem::path& path) {
    return io::adopt_posix_file(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0), path);
}

class RealFiles : public testing::Test {
  protected:
    void SetUp() override {
        root_ = make_scratch_folder();
        ASSERT_NE(root_, "");
        std::filesystem::create_directory(root_ / "nls");
        loaded_ = test::small_options();
        loaded_.options.nls = (root_ / "nls").string();
        loaded_.options.registry = root_.string();
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    int open_target() const { return ::open((root_ / "target.h5").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644); }
    std::vector<std::string> left_in_area() const {
        std::vector<std::string> names;
        for (const auto& folder : std::filesystem::directory_iterator(root_ / "nls"))
            for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path());
        return names;
    }

    std::filesystem::path root_;
    LoadedOptions loaded_;
};

}   // namespace forebay::test
