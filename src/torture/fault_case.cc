#include "torture/fault_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>

namespace forebay::torture {

namespace {

// Storage cuts a write behind whole blocks, here behind the first page.
constexpr std::size_t kShortBytes = 5000;
constexpr std::array kKinds{
    FaultKind{"target-eio", io::Operation::kWrite, EIO},
    FaultKind{"target-enospc", io::Operation::kWrite, ENOSPC},
    FaultKind{"target-edquot", io::Operation::kWrite, EDQUOT},
    FaultKind{"target-estale", io::Operation::kWrite, ESTALE},
    FaultKind{"target-short", io::Operation::kWrite, ENOSPC, kShortBytes},
    FaultKind{"target-resize", io::Operation::kResize, EIO},
    FaultKind{"target-sync", io::Operation::kSync, EIO},
    FaultKind{"staging-enospc", io::Operation::kAllocate, ENOSPC, 0, false},
    FaultKind{"staging-edquot", io::Operation::kAllocate, EDQUOT, 0, false},
    FaultKind{"staging-eio", io::Operation::kAllocate, EIO, 0, false},
    FaultKind{"staging-write", io::Operation::kWrite, EIO, 0, false},
    FaultKind{"staging-map", io::Operation::kMap, ENOMEM, 0, false},
    FaultKind{"staging-sync", io::Operation::kSync, EIO, 0, false},
};
constexpr std::array<std::string_view, 3> kOnError{"fail", "retry", "through"};
constexpr std::array<std::string_view, 2> kDurability{"process", "node"};

// Returns the last value of the setting, or an empty text if there is none.
std::string_view given(std::span<const std::string> settings, std::string_view name) {
    std::string_view value;
    for (const std::string& setting : settings)
        if (setting.starts_with(name) && setting.substr(name.size(), 1) == "=")
            value = std::string_view(setting).substr(name.size() + 1);
    return value;
}

}   // namespace

const FaultKind* find_fault_kind(std::string_view name) noexcept {
    const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                    [&](const FaultKind& kind) { return kind.name == name; });
    return found == kKinds.end() ? nullptr : &*found;
}

// A failed sync loses bytes. After a failed write of the log, the bytes go to another place.
bool FaultCase::has_to_be_told() const noexcept {
    if (kind->operation == io::Operation::kSync) return true;
    return kind->of_target && (on_error != OnError::kRetry || for_ever);
}

std::string FaultCase::text() const {
    return fmt::format("{} {}, on_error={}, durability={}", kind->name, for_ever ? "for ever" : "once",
                       kOnError[static_cast<std::size_t>(on_error)], kDurability[static_cast<std::size_t>(durability)]);
}

std::vector<std::string> FaultCase::settings() const {
    return {fmt::format("on_error={}", kOnError[static_cast<std::size_t>(on_error)]),
            fmt::format("durability={}", kDurability[static_cast<std::size_t>(durability)])};
}

std::vector<FaultCase> fault_cases(bool of_target, bool durable, std::span<const std::string> settings) {
    std::vector<FaultCase> cases;
    for (const FaultKind& kind : kKinds)
        for (std::size_t on_error = 0; on_error < kOnError.size(); ++on_error)
            for (std::size_t durability = 0; durability < kDurability.size(); ++durability)
                for (const bool for_ever : {false, true}) {
                    const bool node = durability == 1;
                    const std::string_view wanted_error = given(settings, "on_error"),
                                           wanted_durability = given(settings, "durability");
                    if (kind.of_target != of_target || (kind.operation == io::Operation::kSync && !node) ||
                        (node && !durable))
                        continue;
                    if (!wanted_error.empty() && wanted_error != kOnError[on_error]) continue;
                    if (!wanted_durability.empty() && wanted_durability != kDurability[durability]) continue;
                    cases.push_back({&kind, static_cast<OnError>(on_error), static_cast<Durability>(durability),
                                     for_ever});
                }
    // Neighbouring cases differ little. So the order takes every `step`-th case, until it has all of them.
    std::size_t step = cases.size() * 3 / 8 + 1;
    while (std::gcd(step, cases.size()) > 1) ++step;
    std::vector<FaultCase> mixed;
    for (std::size_t i = 0; i < cases.size(); ++i) mixed.push_back(cases[i * step % cases.size()]);
    return mixed;
}

}   // namespace forebay::torture
