#include "hdf5/connector/emptied_file.h"

#include <ctime>
#include <memory>

#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

bool is_same_time(const std::timespec& a, const std::timespec& b) noexcept {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// Emptying an empty file sets its times, too.
bool is_untouched(const struct stat& before, const struct stat& now) noexcept {
    return before.st_dev == now.st_dev && before.st_ino == now.st_ino && before.st_size == now.st_size &&
           is_same_time(before.st_mtim, now.st_mtim) && is_same_time(before.st_ctim, now.st_ctim);
}

}   // namespace

EmptiedFile::EmptiedFile(const char* path) noexcept : existed_(::stat(path, &before_) == 0) {}

std::optional<io::Identity> EmptiedFile::touched(const char* path) const noexcept {
    struct stat now{};
    if (::stat(path, &now) != 0 || (existed_ && is_untouched(before_, now))) return std::nullopt;
    return io::Identity{now.st_dev, now.st_ino};
}

Status EmptiedFile::void_logs(const char* path) const {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const auto file = touched(path);
    return engine != nullptr && file ? engine->leftovers().forget_before(*file, path) : Status::ok();
}

}   // namespace forebay::hdf5
