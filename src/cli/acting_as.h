// Reads other users' logs with those users' rights, so that no user makes root write a file that the user could not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

// Sets the effective user and groups to those of `user` during the lifetime of this object. Has no effect for the
// command's own user. Must not be nested. kPermissionDenied: the caller is not root.
class ActingAs {
  public:
    [[nodiscard]] static Result<ActingAs> user(std::uint64_t user);
    ~ActingAs();
    ActingAs(ActingAs&& other) noexcept : before_(std::exchange(other.before_, std::nullopt)) {}
    ActingAs& operator=(ActingAs&&) = delete;

  private:
    struct Before {
        std::uint64_t user, group;
        std::vector<std::uint32_t> groups;
    };
    explicit ActingAs(std::optional<Before> before) : before_(std::move(before)) {}
    std::optional<Before> before_;   // none if the identity was not changed
};

// The groups of a user, the primary group first. Empty if they are unknown.
[[nodiscard]] std::vector<std::uint32_t> groups_of(std::uint64_t user);

// Returns "alice (1000)", or "user 1000" if the name is unknown.
[[nodiscard]] std::string name_of_user(std::uint64_t user);

}   // namespace forebay::cli
