// Who a process is, as logs and ledgers name it.
#pragma once

#include <string>

#include "log/format.h"

namespace forebay::log {

// The calling process. Reads /proc; kUnavailable without it.
[[nodiscard]] Result<ProcessIdentity> identify_this_process();

// True if that very process (not a later one with the same number) runs on this machine now.
[[nodiscard]] bool is_alive(const ProcessIdentity& process);

// "1f0c…-…": the text form of /proc/sys/kernel/random/boot_id.
[[nodiscard]] std::string to_text(const BootId& boot_id);

}   // namespace forebay::log
