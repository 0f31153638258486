#include "hdf5/driver/driver_base.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "hdf5/host/guard.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "io/spare_descriptors.h"

namespace forebay::hdf5 {

namespace {

std::uint64_t nanoseconds(const timespec& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}   // namespace

DriverFile::~DriverFile() { OpenFiles::get().remove(library); }

bool check_open(const char* function, const char* name, haddr_t max_address, haddr_t largest) {
    if (name == nullptr || *name == '\0') {
        push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g, "invalid file name");
        return false;
    }
    if (max_address == 0 || max_address == HADDR_UNDEF || max_address > largest) {
        push_error(function, host().H5E_ARGS_g, host().H5E_BADRANGE_g, "bogus maxaddr");
        return false;
    }
    return true;
}

bool check_region(const char* function, haddr_t address, std::size_t size_bytes) {
    if (address != HADDR_UNDEF && address <= kMaxAddress && size_bytes <= kMaxAddress - address) return true;
    const std::string text = std::string(address == HADDR_UNDEF ? "addr undefined" : "addr overflow") +
                             ", addr = " + std::to_string(address) + ", size = " + std::to_string(size_bytes);
    push_error(function, host().H5E_ARGS_g, address == HADDR_UNDEF ? host().H5E_BADVALUE_g : host().H5E_OVERFLOW_g,
               text.c_str());
    return false;
}

herr_t refuse_unknown_control(const char* function, std::uint64_t flags) {
    if ((flags & H5FD_CTL_FAIL_IF_UNKNOWN_FLAG) == 0) return 0;
    push_error(function, host().H5E_VFL_g, host().H5E_FCNTL_g, "unknown op_code and fail if unknown flag is set");
    return -1;
}

int open_flags(unsigned flags) noexcept {
    int o_flags = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
    if ((flags & H5F_ACC_TRUNC) != 0) o_flags |= O_TRUNC;
    if ((flags & H5F_ACC_CREAT) != 0) o_flags |= O_CREAT;
    if ((flags & H5F_ACC_EXCL) != 0) o_flags |= O_EXCL;
    return o_flags;
}

Status open_target(DriverFile& file, io::MadeFile& made, const char* name, unsigned flags, int o_flags) {
    OpenFile& open = *file.open;
    io::SpareDescriptors& spare = io::SpareDescriptors::of_process();
    spare.note_open();
    int descriptor = made.open(name, o_flags);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE) && spare.give_all_back())
        descriptor = made.open(name, o_flags);
    if (descriptor < 0) return Status::from_errno(errno, std::string("open ") + name);
    open.name = name;
    open.path = io::complete_path(name, descriptor);
    open.descriptor = std::make_shared<io::Descriptor>(descriptor, open.path, o_flags);
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) return Status::from_errno(errno, std::string("stat ") + name);
    file.identity = open.identity = {status.st_dev, status.st_ino};
    open.writable = (flags & H5F_ACC_RDWR) != 0;
    if (!S_ISREG(status.st_mode)) open.aside = ledger::AsideReason::kNotRegular;
    file.end_of_file = static_cast<haddr_t>(status.st_size);
    file.size = static_cast<std::uint64_t>(status.st_size);
    file.modified_ns = nanoseconds(status.st_mtim);
    file.changed_ns = nanoseconds(status.st_ctim);
    return Status::ok();
}

Status may_be_emptied(const OpenFile& file) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr) return {Code::kUnavailable, "the staging engine has ended"};
    return engine->leftovers().may_forget(file.identity, file.name);
}

stage::OpenTarget target_of(const OpenFile& file) {
    return {.file = io::make_posix_file(file.descriptor, file.path), .writable = file.writable, .aside = file.aside};
}

haddr_t get_end_allocated(const H5FD_t* file, H5FD_mem_t) { return as_file<DriverFile>(file)->end_allocated; }

herr_t set_end_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
    as_file<DriverFile>(file)->end_allocated = address;
    return 0;
}

}   // namespace forebay::hdf5
