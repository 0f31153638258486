// Faults of mapped memory: ours become answers, everybody else's go where they went before.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "io/guarded_access.h"
#include "io/posix_file.h"
#include "support/faults.h"

namespace forebay::io {
namespace {

constexpr std::size_t kPages = 4;
const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

// A mapped file of four pages, and its descriptor to cut it with.
class Mapped {
  public:
    Mapped() {
        char name[] = "/tmp/forebay-guard-XXXXXX";
        descriptor_ = ::mkstemp(name);
        ::unlink(name);
        EXPECT_EQ(::ftruncate(descriptor_, static_cast<off_t>(kPages * kPage)), 0);
        const auto file = adopt_posix_file(::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0), "guarded");
        mapping_ = std::move(file->map(0, kPages * kPage).value());
    }
    ~Mapped() { ::close(descriptor_); }
    void cut_to_pages(std::size_t pages) { ASSERT_EQ(::ftruncate(descriptor_, static_cast<off_t>(pages * kPage)), 0); }
    MutableBytes bytes() const { return mapping_->bytes(); }
    bool present(Bytes part) const { return mapping_->present(part); }
    std::byte* page(std::size_t number) const { return bytes().data() + number * kPage; }

  private:
    int descriptor_ = -1;
    std::unique_ptr<Mapping> mapping_;
};

TEST(GuardedAccess, an_action_that_does_not_fault_is_carried_out) {
    const Mapped mapped;
    bool done = false;
    EXPECT_EQ(guarded(mapped.bytes(),
                      [&] {
                          std::memset(mapped.page(0), 1, kPages * kPage);
                          done = true;
                      }),
              nullptr);
    EXPECT_TRUE(done);
    EXPECT_EQ(*mapped.page(3), std::byte{1});
}

TEST(GuardedAccess, a_store_and_a_load_beyond_the_end_of_the_file_are_answers) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    Mapped mapped;
    mapped.cut_to_pages(2);
    for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(guarded(mapped.bytes(), [&] { std::memset(mapped.page(0), 7, kPages * kPage); }), mapped.page(2));
        EXPECT_EQ(*mapped.page(1), std::byte{7});
        std::vector<std::byte> into(kPages * kPage);
        EXPECT_EQ(guarded(mapped.bytes(), [&] { std::memcpy(into.data(), mapped.page(0), into.size()); }),
                  mapped.page(2));
    }
    EXPECT_EQ(find_unreadable(mapped.bytes(), mapped.page(0)), mapped.page(2));
    EXPECT_EQ(find_unreadable(mapped.bytes().first(2 * kPage), mapped.page(0)), nullptr);
}

TEST(GuardedAccess, a_mapping_knows_what_it_can_load) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    Mapped mapped;
    EXPECT_TRUE(mapped.present(mapped.bytes())) << "a hole";
    std::memset(mapped.page(0), 1, kPages * kPage);
    EXPECT_TRUE(mapped.present(mapped.bytes().subspan(5, 2 * kPage))) << "in memory, and not whole pages";
    mapped.cut_to_pages(2);
    EXPECT_FALSE(mapped.present(mapped.bytes()));
    EXPECT_FALSE(mapped.present(mapped.bytes().subspan(2 * kPage - 1, 2)));
    EXPECT_TRUE(mapped.present(mapped.bytes().first(2 * kPage)));
    EXPECT_TRUE(mapped.present({}));
}

TEST(GuardedAccess, guards_nest_and_each_takes_its_own) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    Mapped inner, outer;
    inner.cut_to_pages(0);
    outer.cut_to_pages(0);
    bool went_on = false;
    EXPECT_EQ(guarded(outer.bytes(),
                      [&] {
                          EXPECT_EQ(guarded(inner.bytes(), [&] { *inner.page(1) = std::byte{1}; }), inner.page(1));
                          went_on = true;
                          *outer.page(2) = std::byte{1};
                      }),
              outer.page(2));
    EXPECT_TRUE(went_on);
}

TEST(GuardedAccess, of_two_ranges_the_second_counts_as_well) {
    Mapped from;
    const Mapped to;
    from.cut_to_pages(1);
    EXPECT_EQ(guarded(to.bytes(), from.bytes(), [&] { std::memcpy(to.page(0), from.page(0), kPages * kPage); }),
              from.page(1));
}

TEST(GuardedAccess, threads_fault_for_themselves) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    Mapped mapped;
    mapped.cut_to_pages(1);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < 200; ++n)
                EXPECT_EQ(guarded(mapped.bytes(), [&] { *mapped.page(3) = std::byte{1}; }), mapped.page(3));
        });
}

TEST(GuardedAccess, memory_that_can_be_replaced_keeps_what_can_be_had) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    Mapped mapped;
    std::memset(mapped.page(0), 5, kPages * kPage);
    {
        const Replaceable replaceable(mapped.bytes());
        mapped.cut_to_pages(1);
        EXPECT_FALSE(replaceable.replaced());
        *mapped.page(2) = std::byte{9};
        EXPECT_TRUE(replaceable.replaced());
        EXPECT_EQ(*mapped.page(2), std::byte{9});
        EXPECT_EQ(mapped.page(2)[1], std::byte{0});   // was cut off
        EXPECT_EQ(*mapped.page(0), std::byte{5});
    }
    EXPECT_EQ(guarded(mapped.bytes(), [&] { *mapped.page(3) = std::byte{1}; }), mapped.page(3));
}

// ---- everybody else's --------------------------------------------------------------------------------
// Each in a process of its own, begun afresh: the program's disposition is set before the first mapping is made.

sigjmp_buf out_of_theirs;
volatile int their_faults = 0;
void* volatile their_address = nullptr;

void plain_handler(int) {
    their_faults = their_faults + 1;
    siglongjmp(out_of_theirs, 1);
}
void handler_with_facts(int, siginfo_t* info, void* context) {
    their_faults = their_faults + 1;
    their_address = context == nullptr ? nullptr : info->si_addr;
    siglongjmp(out_of_theirs, 1);
}
void counting_handler(int) { their_faults = their_faults + 1; }

void dispose(void (*handler)(int), int flags = 0) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    (void)::sigaction(SIGBUS, &action, nullptr);
}
// The program's own mapping, not one of forebay's, of a file that is empty.
std::byte* mapping_of_theirs() {
    char name[] = "/tmp/forebay-guard-XXXXXX";
    const int descriptor = ::mkstemp(name);
    ::unlink(name);
    return static_cast<std::byte*>(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
}
// Ours work, whatever the program did.
bool ours_are_answered() {
    Mapped mapped;
    mapped.cut_to_pages(0);
    return guarded(mapped.bytes(), [&] { *mapped.page(0) = std::byte{1}; }) == mapped.page(0);
}
[[noreturn]] void leave(bool well) { std::_Exit(well ? 0 : 1); }

class TheirFaults : public testing::Test {
  protected:
    TheirFaults() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using testing::ExitedWithCode;
using testing::KilledBySignal;

TEST_F(TheirFaults, go_to_the_program_s_own_handler) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EXIT(
        {
            dispose(&plain_handler);
            const volatile bool well = ours_are_answered() && their_faults == 0;
            std::byte* const mapped = mapping_of_theirs();
            if (sigsetjmp(out_of_theirs, 1) == 0) *mapped = std::byte{1};
            if (their_faults == 1 && sigsetjmp(out_of_theirs, 1) == 0) *mapped = std::byte{1};
            leave(well && their_faults == 2 && ours_are_answered());
        },
        ExitedWithCode(0), "");
}

TEST_F(TheirFaults, come_with_their_facts) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EXIT(
        {
            struct sigaction action{};
            action.sa_sigaction = &handler_with_facts;
            action.sa_flags = SA_SIGINFO;
            (void)::sigaction(SIGBUS, &action, nullptr);
            const volatile bool well = ours_are_answered();
            std::byte* const mapped = mapping_of_theirs();
            if (sigsetjmp(out_of_theirs, 1) == 0) *mapped = std::byte{1};
            leave(well && their_faults == 1 && their_address == mapped);
        },
        ExitedWithCode(0), "");
}

TEST_F(TheirFaults, inside_a_guard_of_other_memory_are_still_theirs) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EXIT(
        {
            dispose(&plain_handler);
            const volatile bool well = ours_are_answered();
            const Mapped mapped;
            std::byte* const not_ours = mapping_of_theirs();
            if (sigsetjmp(out_of_theirs, 1) == 0) {
                (void)guarded(mapped.bytes(), [&] { *mapped.page(0) = *not_ours; });
                leave(false);
            }
            leave(well && their_faults == 1);
        },
        ExitedWithCode(0), "");
}

TEST_F(TheirFaults, end_a_program_without_a_handler_as_ever) {
#if defined(FOREBAY_SANITIZES_ADDRESS)
    GTEST_SKIP() << "this sanitizer has a handler of its own";
#endif
    EXPECT_EXIT(
        {
            if (!ours_are_answered()) leave(false);
            *mapping_of_theirs() = std::byte{1};
            leave(true);
        },
        KilledBySignal(SIGBUS), "");
}

TEST_F(TheirFaults, cannot_be_ignored_but_a_signal_that_was_sent_can) {
    EXPECT_EXIT(
        {
            dispose(SIG_IGN);
            if (!ours_are_answered()) leave(false);
            (void)::raise(SIGBUS);
            if (!ours_are_answered()) leave(false);
            *mapping_of_theirs() = std::byte{1};
            leave(true);
        },
        KilledBySignal(SIGBUS), "");
}

TEST_F(TheirFaults, a_signal_that_was_sent_goes_to_the_handler_and_the_program_goes_on) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EXIT(
        {
            dispose(&counting_handler);
            const bool well = ours_are_answered();
            (void)::raise(SIGBUS);
            (void)::kill(::getpid(), SIGBUS);
            leave(well && their_faults == 2);
        },
        ExitedWithCode(0), "");
}

TEST_F(TheirFaults, a_handler_that_was_to_be_called_once_is_called_once) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EXIT(
        {
            dispose(&counting_handler, static_cast<int>(SA_RESETHAND));
            if (!ours_are_answered()) leave(false);
            (void)::raise(SIGBUS);
            if (their_faults != 1 || !ours_are_answered()) leave(false);
            (void)::raise(SIGBUS);
            leave(true);
        },
        KilledBySignal(SIGBUS), "");
}

}   // namespace
}   // namespace forebay::io
