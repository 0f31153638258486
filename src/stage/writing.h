// The writing of an open file by this process, from the open of the first writable handle to the close of the last one.
//
//   Lifecycle           the file is staged here, or bypasses the log (stage/lifecycle.h)
//   ForwardedWriting    a staging server stages the file (stage/forwarded_writing.h)
//
// Thread-safety: any thread. Blocking: every call may wait for the target.
#pragma once

#include "base/status.h"
#include "ledger/ledger.h"

namespace forebay::stage {

class Writing {
  public:
    virtual ~Writing() = default;
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

    // Later writes return when their bytes are in the target. Drains what was written before.
    virtual Status step_aside(ledger::AsideReason reason) = 0;
    // Commits and drains. After a failure the file refuses later opens for writing.
    virtual Status finish() = 0;
    // Finishes a file that the program did not close, at the end of the process. Ok as well if there was nothing to do.
    // kUnavailable: a thread of the program is in a call of the file, or another process has to drain it.
    virtual Status finish_unclosed() = 0;

  protected:
    Writing() = default;
};

}   // namespace forebay::stage
