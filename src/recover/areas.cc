#include "area/staging_area.h"
#include "recover/recovery.h"

namespace forebay::recover {

Result<std::unique_ptr<io::Directory>> find_area(const std::string& nls) {
    auto area = io::open_posix_directory(nls + "/" + area::staging_folder());   // one descriptor at a time
    if (area || area.status().code() != Code::kNotFound) return area;
    const auto parent = io::identify(nls);
    return parent ? Result(std::unique_ptr<io::Directory>()) : parent.status();
}

std::vector<std::unique_ptr<io::Directory>> find_areas_of_others(const std::string& nls) {
    std::vector<std::unique_ptr<io::Directory>> areas;
    const auto parent = io::open_posix_directory(nls);
    const auto names = parent ? parent.value()->list() : parent.status();
    if (!names) return areas;
    for (const std::string& name : names.value()) {
        if (!name.starts_with(area::kStagingFolderPrefix) || name == area::staging_folder()) continue;
        auto area = parent.value()->open_directory(name);
        if (area && area.value()->list()) areas.push_back(std::move(area).value());
    }
    return areas;
}

}   // namespace forebay::recover
