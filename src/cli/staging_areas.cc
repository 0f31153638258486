#include "cli/staging_areas.h"

#include <algorithm>
#include <filesystem>

#include "cli/launch.h"
#include "io/posix_file.h"
#include "log/process.h"
#include "log/staging_area.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& name) {
    std::string path = fs::absolute(name).lexically_normal().string();
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

}   // namespace

std::vector<io::Directory*> Selection::open_areas() const {
    std::vector<io::Directory*> open;
    for (const auto& area : areas) open.push_back(area.get());
    return open;
}

Result<Selection> select(const std::vector<std::string>& names, const std::string& nls) {
    Selection selection;
    const auto add = [&](const std::string& area) {
        if (std::find(selection.nls.begin(), selection.nls.end(), area) == selection.nls.end()) selection.nls.push_back(area);
    };
    if (!nls.empty()) add(absolute(nls));
    for (const std::string& name : names) {
        const fs::path path = absolute(name);
        std::error_code error;
        if (!fs::is_directory(path, error)) {
            if (const auto identity = io::identify(path.string())) selection.files.push_back({identity.value(), path.string()});
            else if (identity.status().code() == Code::kNotFound) selection.missing.push_back(path.string());
            else return identity.status();
        } else if (path.filename() == log::staging_folder()) {
            add(path.parent_path().string());
        } else if (path.parent_path().filename() == log::staging_folder() && log::owner_of_directory(path.filename().string())) {
            add(path.parent_path().parent_path().string());
            selection.directories.push_back(path.string());
        } else {
            add(path.string());
        }
    }
    if (selection.nls.empty()) selection.nls.push_back(absolute(options_with({}).options.nls));
    for (const std::string& each : selection.nls) {
        auto area = recover::find_area(each);
        if (!area) return area.status();
        if (area.value() != nullptr) selection.areas.push_back(std::move(area).value());
    }
    return selection;
}

}   // namespace forebay::cli
