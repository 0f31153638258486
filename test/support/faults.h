// Tests in which mapped memory faults.
#pragma once

#include <gtest/gtest.h>

// The thread sanitizer has its own handlers and jumps. Under it such a fault ends the process.
#if defined(FOREBAY_SANITIZES_THREAD)
#define FOREBAY_SKIP_WITHOUT_FAULTS() GTEST_SKIP() << "with this sanitizer a fault of mapped memory is not answered"
#else
#define FOREBAY_SKIP_WITHOUT_FAULTS() static_cast<void>(0)
#endif
