// For test programs in which a target hangs. They leave a thread in a call that does not return, and all its memory, to
// the end of the process on purpose. Sanitizers would report leaks.
#pragma once

namespace forebay::test {

// A test sets this if it leaves a thread.
inline bool left_on_purpose = false;

}   // namespace forebay::test

#if defined(FOREBAY_SANITIZES_THREAD)
extern "C" __attribute__((visibility("default"), used)) inline const char* __tsan_default_suppressions() {
    return "thread:forebay::task::ThreadCrew::start_thread\n";
}
#endif
#if defined(FOREBAY_SANITIZES_ADDRESS)
extern "C" __attribute__((visibility("default"), used)) inline int __lsan_is_turned_off() {
    return forebay::test::left_on_purpose ? 1 : 0;
}
#endif
