// Lock annotations for clang's thread-safety analysis (-Wthread-safety), empty for other compilers. REQUIRES(mutex):
// the caller holds the lock. EXCLUDES(mutex): it does not. GUARDED_BY(mutex): the member is used only under the lock.
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#pragma once

#if defined(__clang__)
#define FOREBAY_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define FOREBAY_THREAD_ANNOTATION(x)
#endif

#define CAPABILITY(x) FOREBAY_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY FOREBAY_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) FOREBAY_THREAD_ANNOTATION(guarded_by(x))
#define REQUIRES(...) FOREBAY_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) FOREBAY_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) FOREBAY_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) FOREBAY_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) FOREBAY_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) FOREBAY_THREAD_ANNOTATION(assert_capability(x))
#define RETURN_CAPABILITY(x) FOREBAY_THREAD_ANNOTATION(lock_returned(x))
#define NO_THREAD_SAFETY_ANALYSIS FOREBAY_THREAD_ANNOTATION(no_thread_safety_analysis)
