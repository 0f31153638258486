#include "area/run_record.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/attempt.h"
#include "io/append.h"

namespace forebay::area {

namespace {

// A document of several values would take memory in its destructor.
std::string json_text(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A member with this path. If the path is not UTF-8, also one with its bytes as hexadecimal digits.
std::string path_member(std::string_view key, const std::string& path) {
    using Handler = nlohmann::json::error_handler_t;
    const nlohmann::json value(path);
    std::string member = fmt::format(R"("{}":{})", key, json_text(path));
    if (value.dump(-1, ' ', false, Handler::replace) == value.dump(-1, ' ', false, Handler::ignore)) return member;
    member += fmt::format(R"(,"{}_bytes":")", key);
    for (const char c : path) member += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return member + '"';
}

}   // namespace

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

void RunRecord::tell_began(int pid, TallyWriter& tally) const noexcept {
    if (files_.empty()) return;
    (void)attempt([&] {
        std::string path;
        for (const std::string& file : files_) {
            const std::size_t slash = file.rfind('/');
            if (!path.empty() || file.substr(slash + 1) != kRunRecordFile) continue;
            if (auto opened = tally.open(file.substr(0, slash))) path = std::move(opened).value();
        }
        tell(fmt::format(R"({{"began":{{"pid":{},"name":{},{}}}}})", pid, json_text(program_invocation_short_name),
                         path_member("tally", path)));
    });
}

void RunRecord::tell_area(int pid, const std::string& directory) const noexcept {
    if (files_.empty()) return;
    (void)attempt([&] {
        tell(fmt::format(R"({{"area":{{"pid":{},{}}}}})", pid, path_member("directory", directory)));
    });
}

}   // namespace forebay::area
