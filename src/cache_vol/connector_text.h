// What stands behind `cache_ext` in HDF5_VOL_CONNECTOR, taken apart.
//
//   cache_ext config=SSD.cfg;under_vol=512;under_info={under_vol=0;under_info={}}
//
// Pairs name=value may come in any order, with blanks around them. A value that begins with a brace ends at its
// partner; where that is missing, at the end. `under_vol` 512, 518 and 707 are connectors that make a stack
// asynchronous. forebay does that itself, so they are taken out of the stack, and so is `cache_ext` (513) below
// itself: what was beneath them is beneath forebay. In local_storage, %XX stands for the byte of that hexadecimal
// number, as braces of its own would be taken for the value's (`text_of_storage`). Names other than config,
// local_storage, under_vol and under_info are options of forebay.
//
// Pure: nothing blocks, no state, any thread. Source: the connector strings of the Cache VOL papers and documentation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay::cache_vol {

struct ConnectorText {
    std::string config;                 // the configuration file; empty: none is named
    std::string local_storage;          // the same pairs as in that file, and stronger; empty: none
    std::string under_vol = "0";        // the connector beneath, as a value or a name
    std::string under_info;             // its own text
    std::string options;                // options of forebay, as a connector string
    bool asynchronous = false;          // there was such a connector in the stack
    std::vector<std::string> notices;   // what is not done as written, one sentence each
};

// The notice about such a connector.
inline constexpr std::string_view kOwnAsynchrony =
    "the connector string asks for asynchrony beneath (under_vol 512, 518 or 707): forebay has its own, and no such "
    "connector is loaded";

[[nodiscard]] ConnectorText parse_connector_text(std::string_view text);

// The pair that gives a connector text these lines of settings: ";local_storage={...}".
[[nodiscard]] std::string text_of_storage(std::string_view lines);

}   // namespace forebay::cache_vol
