// The process of `forebay torture` that writes while calls on the target or the staging area fail.
#pragma once

#include "base/options.h"
#include "base/status.h"
#include "torture/victim.h"

namespace forebay::torture {

// Carries out `order`, and reports the outcomes on standard output. Fails if the fault could not be tried.
[[nodiscard]] Status live_with_a_fault(const VictimOrder& order, const LoadedOptions& loaded);

}   // namespace forebay::torture
