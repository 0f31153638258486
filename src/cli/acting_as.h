// Root looks at other users' logs as those users: files are found, read and written with their rights, and nobody can
// make root write what the user could not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

// The effective user and groups are those of `user` for as long as this lives. For the user that the command has
// anyway, nothing changes. Not to be nested. kPermissionDenied: only root may.
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
    std::optional<Before> before_;   // none: nothing was changed
};

// The groups of a user, the first one foremost; empty: nobody knows.
[[nodiscard]] std::vector<std::uint32_t> groups_of(std::uint64_t user);

// "alice (1000)", or "user 1000" where nobody knows the name.
[[nodiscard]] std::string name_of_user(std::uint64_t user);

}   // namespace forebay::cli
