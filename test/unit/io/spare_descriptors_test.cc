// Few descriptors are kept, and none when the program needs them.
#include "io/spare_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace forebay::io {
namespace {

class Holder final : public SpareDescriptor {
  public:
    ~Holder() { SpareDescriptors::of_process().forget(*this); }
    void give_back() noexcept override { ++given_back; }
    int given_back = 0;
};

// In a process of its own, as the limit is the process's.
class SpareDescriptorsTest : public testing::Test {
  protected:
    template <class Act>
    static int in_child(rlim_t limit, Act&& act) {
        const pid_t child = ::fork();
        if (child == 0) {
            const rlimit limits{limit, limit};
            ::_exit(::setrlimit(RLIMIT_NOFILE, &limits) == 0 ? act() : 100);
        }
        int status = -1;
        return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    static int keep_all(std::vector<std::unique_ptr<Holder>>& holders) {
        int kept = 0;
        for (int i = 0; i < 200; ++i) {
            holders.push_back(std::make_unique<Holder>());
            kept += SpareDescriptors::of_process().keep(*holders.back()) ? 1 : 0;
        }
        return kept;
    }
};

TEST_F(SpareDescriptorsTest, a_small_share_of_the_limit_is_kept) {
    for (const auto& [limit, expected] : {std::pair{1024, 8}, {256, 2}, {100, 0}})
        EXPECT_EQ(in_child(static_cast<rlim_t>(limit),
                           [] {
                               std::vector<std::unique_ptr<Holder>> holders;
                               return keep_all(holders);
                           }),
                  expected);
}

TEST_F(SpareDescriptorsTest, they_are_given_back_once_half_of_the_numbers_are_used) {
    const auto given_back = [] {
        std::vector<std::unique_ptr<Holder>> holders;
        const int kept = keep_all(holders);
        SpareDescriptors& spare = SpareDescriptors::of_process();
        spare.give_back_if_scarce();
        if (static_cast<int>(spare.kept()) != kept) return 1;
        for (int i = 0; i < 600; ++i)
            if (::open("/", O_RDONLY | O_CLOEXEC) < 0) return 2;
        spare.give_back_if_scarce();
        int told = 0;
        for (const auto& holder : holders) told += holder->given_back;
        if (told != kept || spare.kept() != 0) return 3;
        Holder another;
        return spare.keep(another) || spare.give_all_back() ? 4 : 0;
    };
    EXPECT_EQ(in_child(1024, given_back), 0);
}

TEST_F(SpareDescriptorsTest, a_lower_limit_takes_them_back) {
    EXPECT_EQ(in_child(1024,
                       [] {
                           std::vector<std::unique_ptr<Holder>> holders;
                           (void)keep_all(holders);
                           const rlimit limits{64, 1024};
                           if (::setrlimit(RLIMIT_NOFILE, &limits) != 0) return 1;
                           SpareDescriptors::of_process().give_back_if_scarce();
                           return SpareDescriptors::of_process().kept() == 0 ? 0 : 2;
                       }),
              0);
}

TEST_F(SpareDescriptorsTest, only_a_want_of_descriptors_is_taken_for_one) {
    EXPECT_TRUE(lacks_descriptors(Status::from_errno(EMFILE, "open")));
    EXPECT_TRUE(lacks_descriptors(Status::from_errno(ENFILE, "open")));
    EXPECT_FALSE(lacks_descriptors(Status::from_errno(ENOMEM, "open")));
    EXPECT_FALSE(lacks_descriptors(Status::ok()));
}

}   // namespace
}   // namespace forebay::io
