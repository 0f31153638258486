// The requests of a client whose server answers late.
#include "wire/requests.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "io/socket.h"
#include "support/scratch_folder.h"

namespace forebay::wire {
namespace {

// The server still has the file locked, and goes on.
TEST(Requests, an_answer_that_is_late_leaves_the_connection_also_if_it_is_that_to_an_earlier_write) {
    const std::string folder = test::make_scratch_folder();
    io::Address address;
    address.path = folder + "/socket";
    const auto listener = io::Listener::open(address);
    ASSERT_TRUE(listener) << listener.status().message();
    for (const bool written : {false, true}) {
        auto socket = io::Socket::connect(address);
        ASSERT_TRUE(socket) << socket.status().message();
        ASSERT_TRUE(socket.value()->set_patience(std::chrono::seconds(1), std::chrono::seconds(60)));
        Requests requests({std::make_unique<Connection>(std::move(socket).value()), {kVersion, 64, 8 << 20, 1}, {}},
                          false, [](const Status&) {});
        const std::array<Part, 1> parts{{{0, 4, Class::kRaw}}};
        if (written) {
            ASSERT_TRUE(requests.write(parts, encode(parts), std::array<std::byte, 4>{}));
        }
        bool late = false;
        EXPECT_FALSE(requests.call(Type::kClose, {}, Type::kDone, &late));
        EXPECT_TRUE(late && !requests.lost());
    }
    std::filesystem::remove_all(folder);
}

}   // namespace
}   // namespace forebay::wire
