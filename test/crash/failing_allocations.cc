// Loaded before all other libraries, it makes the program's Nth allocation by C++ fail: those of the connector, since
// the programs of these tests, HDF5 and MPI are written in C.
//
//   FAILING_NEW_AT=N               the Nth from the start of the process fails, each thread's counted; 0: none
//   FAILING_NEW_FOR_EVER=1         and all after it
//   FAILING_NEW_COUNT_TO=FILE      takes, when the process ends, how many there were
//
// When one fails for the first time "allocation N failed" is written to standard error. A thread of the program may
// also call fail_allocation.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> made{0};
thread_local long until_failure = 0;   // of fail_allocation; 0: none fails, or the one has failed
thread_local bool armed = false;

long number_of(const char* name) noexcept {
    const char* const value = std::getenv(name);
    return value != nullptr ? std::atol(value) : 0;
}

bool fails() noexcept {
    if (until_failure > 0 && --until_failure == 0) return true;
    static const long at = number_of("FAILING_NEW_AT");
    static const bool for_ever = number_of("FAILING_NEW_FOR_EVER") != 0;
    const long nth = ++made;
    if (nth == at) {
        char line[64];
        const int length = std::snprintf(line, sizeof line, "allocation %ld failed\n", nth);
        if (write(STDERR_FILENO, line, static_cast<std::size_t>(length)) != length) _exit(9);
    }
    return at > 0 && (nth == at || (for_ever && nth > at));
}

[[gnu::destructor]] void tell() {
    const char* const path = std::getenv("FAILING_NEW_COUNT_TO");
    if (path == nullptr) return;
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr || std::fprintf(file, "%ld\n", made.load()) < 0 || std::fclose(file) != 0) _exit(9);
}

}   // namespace

// Makes this thread's nth allocation from now on fail; 0: none. Returns 1 if the one of the call before has failed.
extern "C" [[gnu::visibility("default")]] int fail_allocation(long nth) {
    const bool failed = armed && until_failure == 0;
    armed = nth > 0;
    until_failure = nth;
    return failed ? 1 : 0;
}

void* operator new(std::size_t size) {
    void* const memory = fails() ? nullptr : std::malloc(size > 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return fails() ? nullptr : std::malloc(size > 0 ? size : 1);
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
