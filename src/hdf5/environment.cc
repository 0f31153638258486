#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "hdf5/identity.h"

namespace forebay::hdf5 {

const char* look_up_variable(const char* name) noexcept { return std::getenv(name); }

std::vector<std::string> forebay_variables() {
    std::vector<std::string> names;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        if (variable.starts_with("FOREBAY_")) names.emplace_back(variable.substr(0, variable.find('=')));
    }
    return names;
}

}   // namespace forebay::hdf5
