#include "area/run_record.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/attempt.h"
#include "io/append.h"

namespace forebay::area {

RunRecord::RunRecord(const char* files) {
    std::string_view rest = files != nullptr ? files : "";
    while (!rest.empty()) {
        const std::size_t colon = rest.find(':');
        if (const std::string_view file = rest.substr(0, colon); file.starts_with('/')) files_.emplace_back(file);
        rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
    }
}

RunRecord RunRecord::of_environment() noexcept {
    RunRecord record;
    (void)attempt([&] { record = RunRecord(std::getenv(kRunVariable)); });
    return record;
}

void RunRecord::tell(std::string_view line, std::string_view except) const noexcept {
    for (const std::string& file : files_)
        if (file != except) (void)attempt([&] { return io::append_line_to_own(file, line); });
}

void RunRecord::tell_began(int pid) const noexcept {
    if (files_.empty()) return;
    (void)attempt([&] { tell(fmt::format(R"({{"began":{{"pid":{}}}}})", pid)); });
}

void RunRecord::tell_area(int pid, const std::string& directory) const noexcept {
    if (files_.empty()) return;
    (void)attempt([&] {
        // A document of several values would take memory at its end.
        constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
        const std::string quoted = nlohmann::json(directory).dump(-1, ' ', false, kReplace);
        tell(fmt::format(R"({{"area":{{"pid":{},"directory":{}}}}})", pid, quoted));
    });
}

}   // namespace forebay::area
