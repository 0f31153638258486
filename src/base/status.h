// The outcome of an operation that can fail: code, errno, retry advice and a message. Inside forebay no code throws on
// purpose, and none prints: a function that can fail returns `Status` or `Result<T>`. The message names attempt and
// file, e.g. "write 4096 bytes at offset 8192 to /scratch/run.h5: No space left on device". Thread-safe to copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace forebay {

enum class Code : std::uint8_t {
    kOk,
    kInvalidArgument,   // an option, a path or a call's argument is unusable
    kNotFound,
    kAlreadyExists,
    kPermissionDenied,
    kNoSpace,       // ENOSPC, EDQUOT, or a full staging area
    kIo,            // the operating system reported a failed transfer
    kCorrupt,       // stored bytes differ from the written ones
    kUnsupported,   // not possible with this file, library or file system
    kUnavailable,   // the system lacks a resource (threads, memory, descriptors)
    kInternal,      // a broken invariant of forebay itself
};

// Returns the lower-case name of a code, e.g. "no_space". Never null.
[[nodiscard]] std::string_view code_name(Code code) noexcept;

class [[nodiscard]] Status {
  public:
    Status() noexcept = default;
    Status(Code code, std::string message, int sys_errno = 0, bool retryable = false)
        : code_(code), retryable_(retryable), errno_(sys_errno), message_(std::move(message)) {}

    static Status ok() noexcept { return {}; }

    // Makes a system call's failure. `doing` names the attempt and the file; errno decides code, retry advice and text.
    static Status from_errno(int sys_errno, std::string_view doing);
    // The message is only "errno N", so the call allocates no memory.
    static Status from_errno(int sys_errno) noexcept;

    [[nodiscard]] bool is_ok() const noexcept { return code_ == Code::kOk; }
    explicit operator bool() const noexcept { return is_ok(); }
    [[nodiscard]] Code code() const noexcept { return code_; }
    [[nodiscard]] int sys_errno() const noexcept { return errno_; }
    // Returns true if the same call may succeed later, with nothing else changed (EINTR, EAGAIN, ENOSPC, ...).
    [[nodiscard]] bool retryable() const noexcept { return retryable_; }
    [[nodiscard]] const std::string& message() const noexcept { return message_; }

    // Returns the same failure with the message "`context`: message".
    [[nodiscard]] Status with_context(std::string_view context) const;

  private:
    Code code_ = Code::kOk;
    bool retryable_ = false;
    int errno_ = 0;
    std::string message_;
};

// A value, or the Status that explains its absence. Access to an absent value throws std::bad_variant_access.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T result) : state_(std::in_place_index<0>, std::move(result)) {}          // NOLINT: implicit on purpose
    Result(Status failure) : state_(std::in_place_index<1>, std::move(failure)) {}   // NOLINT

    [[nodiscard]] bool is_ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return is_ok(); }
    [[nodiscard]] T& value() & { return std::get<0>(state_); }
    [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
    [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
    [[nodiscard]] Status status() const { return is_ok() ? Status::ok() : std::get<1>(state_); }

  private:
    std::variant<T, Status> state_;
};

}   // namespace forebay

#define FOREBAY_TRY(expression)                                                                         \
    do {                                                                                                \
        if (::forebay::Status forebay_status_ = (expression); !forebay_status_) return forebay_status_; \
    } while (false)
