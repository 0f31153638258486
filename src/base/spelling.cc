#include "base/spelling.h"

#include <algorithm>
#include <vector>

namespace forebay {

namespace {

// Levenshtein's distance: the insertions, deletions and replacements that turn one word into the other.
std::size_t edit_distance(std::string_view from, std::string_view to) {
    std::vector<std::size_t> row(to.size() + 1);
    for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= from.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= to.size(); ++j) {
            const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[to.size()];
}

}   // namespace

std::optional<std::string_view> nearest_word(std::string_view word, std::span<const std::string_view> known) {
    std::string wanted(word);
    for (char& c : wanted)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    std::optional<std::string_view> nearest;
    std::size_t least = (wanted.size() + 2) / 3 + 1;
    for (const std::string_view one : known) {
        const std::size_t distance = edit_distance(wanted, one);
        if (distance < least) {
            least = distance;
            nearest = one;
        }
    }
    return nearest;
}

}   // namespace forebay
