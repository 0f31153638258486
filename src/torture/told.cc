#include "torture/told.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace forebay::torture {

Told understand(std::string_view output) {
    Told told;
    for (std::size_t at = 0; at < output.size(); ++at) {
        const char letter = output[at];
        told.failures += letter == 'x' || letter == 'w' || letter == 'e';
        if (letter == 'c' || letter == 'x') ++told.commits;
        if (letter == 'c') told.good_commits = told.commits;
        told.fault_met = told.fault_met || letter == 'f';
        told.given_up = told.given_up || letter == 'g';
        told.closed = told.closed || letter == 'o' || letter == 'e';
        told.closed_well = told.closed_well || letter == 'o';
        told.refused = told.refused || letter == 'r';
        if (letter == 'w' || letter == 's') {
            std::uint64_t number = 0;
            const auto [end, error] = std::from_chars(output.data() + at + 1, output.data() + output.size(), number);
            if (error != std::errc() || end == output.data() + output.size()) break;   // the number was cut off
            if (letter == 'w') told.failed_operation = number;
            else told.seen.push_back(number);
            at = static_cast<std::size_t>(end - output.data());   // skips the semicolon
        }
    }
    return told;
}

bool tell(std::string_view what) noexcept {
    for (;;) {
        // A pipe takes a text this short in one write.
        if (::write(STDOUT_FILENO, what.data(), what.size()) == static_cast<ssize_t>(what.size())) return true;
        if (errno != EINTR) return false;
    }
}

}   // namespace forebay::torture
