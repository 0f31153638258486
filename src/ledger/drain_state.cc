#include "ledger/drain_state.h"

#include <cstring>

#include "log/target_state.h"

namespace forebay::ledger {

std::string error_text(std::uint64_t error) {
    const int number = static_cast<int>(error);
    return number == log::kChangedByOthers ? "another program has changed it" : std::strerror(number);
}

}   // namespace forebay::ledger
