#include "recover/trust.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

namespace forebay::recover {

namespace {

Status refuse(const std::string& path, std::string_view why) {
    return {Code::kPermissionDenied, fmt::format("{}: {}", path, why)};
}

}   // namespace

Status check_trusted(io::Directory& directory, const std::string& name, io::Facts::Kind kind) {
    const auto facts = directory.facts(name);
    if (!facts) return facts.status();
    const std::string path = name == "." ? directory.name() : directory.name() + "/" + name;
    if (facts.value().kind == io::Facts::Kind::kSymbolicLink) return refuse(path, "it is a symbolic link");
    if (facts.value().kind != kind)
        return refuse(path, kind == io::Facts::Kind::kFile ? "it is no file" : "it is no directory");
    if (facts.value().owner != ::geteuid())
        return refuse(path, fmt::format("it belongs to user {}, not to user {}", facts.value().owner, ::geteuid()));
    if ((facts.value().mode & io::Facts::kWritableByOthers) != 0)
        return refuse(path, fmt::format("others may write to it (mode {:04o})", facts.value().mode));
    return Status::ok();
}

Result<std::unique_ptr<io::File>> open_trusted(io::Directory& directory, const std::string& name, io::OpenMode mode) {
    FOREBAY_TRY(check_trusted(directory, name, io::Facts::Kind::kFile));
    return directory.open_file(name, mode);
}

}   // namespace forebay::recover
