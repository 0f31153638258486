#include "group/shared_target.h"

#include <cerrno>

namespace forebay::group {

void SharedTarget::fail(int sys_errno, bool through) noexcept {
    BoardHeader& header = participants_.header();
    if (through && !bypasses_log()) header.bypass.store(Bypass::kSoon);
    if (participants_.setup().several_nodes) header.exposed.clean.store(Exposed::kCannotDrain);
    header.failed.store(static_cast<std::uint32_t>(sys_errno != 0 ? sys_errno : EIO));
    io::raise_and_wake(header.progress);
}

void SharedTarget::allow_bypass() noexcept {
    participants_.header().bypass.store(Bypass::kNow, std::memory_order_release);
    io::raise_and_wake(participants_.header().progress);
}

}   // namespace forebay::group
