// For test programs in which a target hangs: a thread in a call that does not return is left to the end of the
// process, on purpose, and the thread sanitizer would take it for a leak. One file of a program includes this.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "thread:forebay::task::Engine::Core::start_thread_locked\n"; }
#endif
