// Parses the text behind `cache_ext` in HDF5_VOL_CONNECTOR.
//
//   cache_ext config=SSD.cfg;under_vol=512;under_info={under_vol=0;under_info={}}
//
// Pairs name=value stand in any order, with blanks around them. A value in braces ends at the matching brace, or at the
// end of the text if that brace is missing. Connectors 512, 518 and 707 make a stack asynchronous, which forebay does
// itself. So the parser takes them out of the stack, and `cache_ext` (513) beneath itself too; the connector beneath
// them is then beneath forebay. In local_storage, %XX stands for the byte with this hexadecimal number, because its own
// braces would end the value (`text_of_storage`). Other names than config, local_storage, under_vol and under_info are
// options of forebay. Pure; any thread. Source: the connector strings of the Cache VOL papers and documentation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay::cache_vol {

struct ConnectorText {
    std::string config;                 // path of the configuration file; may be empty
    std::string local_storage;          // pairs as in that file, which override it; may be empty
    std::string under_vol = "0";        // connector beneath, as a value or a name
    std::string under_info;             // text of the connector beneath
    std::string options;                // options of forebay, as a connector string
    bool asynchronous = false;          // the stack had an asynchronous connector
    std::vector<std::string> notices;   // deviations from the text, one sentence each
};

// The notice about an asynchronous connector.
inline constexpr std::string_view kOwnAsynchrony =
    "the connector string asks for asynchrony beneath (under_vol 512, 518 or 707): forebay has its own, and no such "
    "connector is loaded";

[[nodiscard]] ConnectorText parse_connector_text(std::string_view text);

// Returns the pair ";local_storage={...}" with these lines of settings, to append to a connector text.
[[nodiscard]] std::string text_of_storage(std::string_view lines);

}   // namespace forebay::cache_vol
