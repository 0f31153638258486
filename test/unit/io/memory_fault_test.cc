// No memory for the text of an error that the system tells only once: the call returns it all the same.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <string>

#include "io/posix_file.h"
#include "support/failing_allocations.h"
#include "support/scratch_folder.h"

namespace forebay::io {
namespace {

// A descriptor that only names its file refuses all data calls with EBADF.
TEST(FileWithoutMemory, returns_each_error_of_the_system) {
    const std::string folder = test::make_scratch_folder();
    ASSERT_FALSE(folder.empty());
    const std::string path = folder + "/a name that is longer than fifteen characters";
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(made, 0);
    ASSERT_EQ(::close(made), 0);
    const auto file = adopt_posix_file(::open(path.c_str(), O_PATH | O_CLOEXEC), path);
    std::array<std::byte, 8> bytes{};
    const auto expect_told = [](const char* call, auto&& act) {
        int error = 0;
        try {
            const test::NoMemory none;
            error = act().sys_errno();
        } catch (const std::bad_alloc&) {
            ADD_FAILURE() << call << " lost the error";
            return;
        }
        EXPECT_EQ(error, EBADF) << call;
    };
    expect_told("read", [&] { return file->read_at(0, bytes).status(); });
    expect_told("write", [&] { return file->write_at(0, bytes); });
    expect_told("set size", [&] { return file->resize(10); });
    expect_told("sync", [&] { return file->sync(); });
    expect_told("late failure", [&] { return file->late_failure(); });
    std::filesystem::remove_all(folder);
}

}   // namespace
}   // namespace forebay::io
