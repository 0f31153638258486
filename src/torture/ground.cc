#include "torture/ground.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "area/last_writer.h"
#include "area/staging_area.h"
#include "base/options.h"
#include "cli/launch.h"

namespace forebay::torture {

namespace {

namespace fs = std::filesystem;

Result<std::string> own_folder(const std::string& in, const std::string& option) {
    std::error_code error;
    const fs::path directory = fs::canonical(in, error);
    if (error) return Status::from_errno(error.value(), fmt::format("{}: find {}", option, in));
    std::string name = (directory / "forebay-torture-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
        return Status::from_errno(errno, fmt::format("{}: create a directory in {}", option, directory.string()));
    return name;
}

}   // namespace

Status Ground::open(const std::string& nls, const std::string& nls_origin, const std::string& target) {
    FOREBAY_TRY(signals.open());
    auto own = cli::own_path();
    if (!own) return own.status();
    self = std::move(own).value();
    command = fs::path(self).replace_filename("forebay").string();
    auto staging = own_folder(nls, nls_origin);
    if (!staging) return staging.status();
    nls_ = std::move(staging).value();
    auto files = own_folder(target, "--target");
    if (!files) return files.status();
    target_ = std::move(files).value();
    // Checks the staging directory as an engine does: not on a network file system, and with enough room.
    LoadedOptions loaded = load_options("nls=" + quote_connector_value(as_staging_device(nls_)),
                                        [](const char*) -> const char* { return nullptr; });
    for (OptionOrigin& origin : loaded.origins)
        if (origin.name == "nls") origin.source = nls_origin;
    const auto area = area::open_staging_area(loaded);
    if (area) in_memory_ = area.value().is_memory;
    return area.status();
}

Ground::~Ground() {
    std::error_code ignored;
    for (const std::string& folder : {nls_, target_})
        if (!folder.empty() && !kept_) fs::remove_all(folder, ignored);
}

std::string Ground::words(const std::string& whose) const {
    std::ifstream file(words_file(whose), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

Status Ground::prepare(const std::vector<std::byte>& content) const {
    std::error_code error;
    fs::remove_all(nls_ + "/" + area::staging_folder(), error);
    if (error) return Status::from_errno(error.value(), "empty the staging area in " + nls_);
    fs::remove(file(), error);
    std::ofstream out(file(), std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    out.close();
    return out ? Status::ok() : Status::from_errno(errno, "write " + file());
}

Result<std::vector<std::byte>> Ground::content() const {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file(), error);
    if (error) return Status::from_errno(error.value(), "look at " + file());
    std::vector<std::byte> bytes(size);
    std::ifstream in(file(), std::ios::binary);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!in) return Status::from_errno(errno != 0 ? errno : EIO, "read " + file());
    return bytes;
}

bool Ground::anything_staged() const {
    std::error_code error;
    const fs::path area = nls_ + "/" + area::staging_folder();
    for (fs::directory_iterator entry(area, error), end; !error && entry != end; entry.increment(error))
        if (entry->path().filename() != area::kWritersFolder) return true;
    return false;
}

}   // namespace forebay::torture
