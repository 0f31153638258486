#include "base/status.h"

#include <cerrno>
#include <system_error>

namespace forebay {

namespace {

Code code_of(int sys_errno) noexcept {
    switch (sys_errno) {
        case ENOENT:
        case ENOTDIR: return Code::kNotFound;
        case EEXIST: return Code::kAlreadyExists;
        case EACCES:
        case EPERM:
        case EROFS: return Code::kPermissionDenied;
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return Code::kNoSpace;
        case EINVAL:
        case ENAMETOOLONG:
        case ELOOP: return Code::kInvalidArgument;
        case ENOMEM:
        case EMFILE:
        case ENFILE:
        case EAGAIN: return Code::kUnavailable;
        case ENOSYS:
        case EOPNOTSUPP: return Code::kUnsupported;
        default: return Code::kIo;
    }
}

bool may_succeed_later(int sys_errno) noexcept {
    switch (sys_errno) {
        case EINTR:
        case EAGAIN:
        case ENOMEM:
        case ENOSPC:
        case EDQUOT:
        case ETIMEDOUT:
        case EMFILE:
        case ENFILE: return true;
        default: return false;
    }
}

}   // namespace

std::string_view code_name(Code code) noexcept {
    switch (code) {
        case Code::kOk: return "ok";
        case Code::kInvalidArgument: return "invalid_argument";
        case Code::kNotFound: return "not_found";
        case Code::kAlreadyExists: return "already_exists";
        case Code::kPermissionDenied: return "permission_denied";
        case Code::kNoSpace: return "no_space";
        case Code::kIo: return "io";
        case Code::kCorrupt: return "corrupt";
        case Code::kUnsupported: return "unsupported";
        case Code::kUnavailable: return "unavailable";
        case Code::kInternal: return "internal";
    }
    return "unknown";
}

Status Status::from_errno(int sys_errno, std::string_view doing) {
    std::string message(doing);
    message += ": ";
    message += std::generic_category().message(sys_errno);
    return {code_of(sys_errno), std::move(message), sys_errno, may_succeed_later(sys_errno)};
}

// At most 15 characters fit into the string object.
Status Status::from_errno(int sys_errno) noexcept {
    return {code_of(sys_errno), "errno " + std::to_string(sys_errno), sys_errno, may_succeed_later(sys_errno)};
}

Status Status::with_context(std::string_view context) const {
    if (is_ok()) return *this;
    Status outer = *this;
    outer.message_ = std::string(context) + ": " + message_;
    return outer;
}

}   // namespace forebay
