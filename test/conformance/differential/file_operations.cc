// Operations on whole files: create, open, flush, close, mount, and what the operating system sees of them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "program.h"
#include "selection.h"

namespace differential {
namespace {

// The same file by another name is the same file.
std::string spelled(const FileState& file, Random& random) { return random.chance(20) ? "./" + file.name : file.name; }

void open_one(Program& program, std::size_t index, Random& random, unsigned flags) {
    FileState& file = program.files()[index];
    std::string text = spelled(file, random) + (flags & H5F_ACC_RDWR ? " rw" : " ro") +
                       (flags & H5F_ACC_SWMR_WRITE ? " swmr" : "");
    const std::string name = text.substr(0, text.find(' '));
    const Id access = random_file_access(file.driver, random, text);
    program.journal().note(text);
    Id opened(H5Fopen(name.c_str(), flags, access.get()));
    if (!program.journal().call("open-file", opened.get())) return;
    program.handles().push_back({std::move(opened), index, (flags & H5F_ACC_RDWR) != 0});
}

void close_handle(Program& program, Random& random) {
    auto& handles = program.handles();
    if (handles.size() < 2 && random.chance(60)) return;   // something should be open most of the time
    if (handles.empty()) return;
    const std::size_t index = random.below(handles.size());
    program.journal().note(program.file_of(handles[index]).name);
    program.journal().call("close-file", handles[index].id.close());
    handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(index));
}

// What any other program would see now.
void digest_directory(Program& program) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("."))
        if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    for (const auto& name : names) {
        std::ifstream stream(name, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
        program.journal().value(name, static_cast<std::int64_t>(bytes.size()));
        program.journal().digest("bytes", std::as_bytes(std::span(bytes)));
    }
}

// How many descriptors of files in this directory the process has. HDF5 keeps one of a file that it could not close,
// and counts the file no more: its bytes are of no defined state then.
std::int64_t descriptors_here() {
    const std::string here = std::filesystem::current_path().string() + "/";
    std::int64_t count = 0;
    std::error_code gone;   // the descriptor of the directory that is listed
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with(here)) ++count;
    return count;
}

bool close_everything(Program& program) {
    for (std::size_t file = 0; file < program.files().size(); ++file) program.close_file(file);
    const auto left = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
    program.journal().value("left-open", left);
    const std::int64_t kept = descriptors_here();
    program.journal().value("descriptors", kept);
    return left == 0 && kept == 0;
}

void close_all_and_look(Program& program, Random& random) {
    if (close_everything(program)) digest_directory(program);
    for (std::size_t i = 0; i < program.files().size(); ++i)
        if (program.files()[i].created && random.chance(75))
            open_one(program, i, random, random.chance(85) ? H5F_ACC_RDWR : H5F_ACC_RDONLY);
}

void reopen(Program& program, Random& random) {
    if (program.handles().empty()) return;
    const std::size_t index = random.pick(program.handles()).file;
    program.journal().note(program.files()[index].name);
    program.close_file(index);
    open_one(program, index, random, random.chance(80) ? H5F_ACC_RDWR : H5F_ACC_RDONLY);
}

void flush(Program& program, Random& random) {
    const auto scope = random.pick({H5F_SCOPE_LOCAL, H5F_SCOPE_GLOBAL});
    if (!program.held().empty() && random.chance(30)) {
        auto& dataset = random.pick(program.held());
        program.journal().note(dataset.path);
        program.journal().call("flush", H5Fflush(dataset.id.get(), scope));
    } else if (Handle* handle = program.some_handle(random)) {
        program.journal().note(program.file_of(*handle).name);
        program.journal().call("flush", H5Fflush(handle->id.get(), scope));
    }
}

// Which of the known drivers an access list names: programs branch on it.
std::int64_t driver_of(hid_t access) {
    const hid_t driver = H5Pget_driver(access);
    const std::array known{H5FD_SEC2, H5FD_STDIO, H5FD_CORE, H5FD_FAMILY, H5FD_MULTI};
    return std::ranges::find(known, driver) - known.begin();
}

void file_facts(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr) return;
    Journal& journal = program.journal();
    const hid_t file = handle->id.get();
    journal.note(program.file_of(*handle).name);
    hsize_t size = 0;
    if (journal.call("size", H5Fget_filesize(file, &size))) journal.value("size", static_cast<std::int64_t>(size));
    journal.value("free", H5Fget_freespace(file));
    unsigned intent = 0;
    if (journal.call("intent", H5Fget_intent(file, &intent))) journal.value("intent", intent);
    std::array<char, 200> name{};
    journal.value("name", H5Fget_name(file, name.data(), name.size()));
    journal.note(name.data());
    journal.value("objects", H5Fget_obj_count(file, H5F_OBJ_ALL));
    H5F_info2_t info{};
    if (journal.call("info", H5Fget_info2(file, &info))) {
        journal.value("superblock", info.super.version);
        journal.value("free-sections", static_cast<std::int64_t>(info.free.tot_space));
    }
    const Id access(H5Fget_access_plist(file));
    if (journal.call("access-list", access.get())) {
        journal.value("driver", driver_of(access.get()));
        H5F_libver_t low{}, high{};
        H5Pget_libver_bounds(access.get(), &low, &high);
        journal.value("low", low);
        H5F_close_degree_t degree{};
        H5Pget_fclose_degree(access.get(), &degree);
        journal.value("degree", degree);
    }
    const Id creation(H5Fget_create_plist(file));
    hsize_t userblock = 0;
    if (journal.call("creation-list", creation.get()) && H5Pget_userblock(creation.get(), &userblock) >= 0)
        journal.value("userblock", static_cast<std::int64_t>(userblock));
}

void file_image(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr) return;
    Journal& journal = program.journal();
    journal.note(program.file_of(*handle).name);
    journal.call("flush", H5Fflush(handle->id.get(), H5F_SCOPE_GLOBAL));
    const auto size = H5Fget_file_image(handle->id.get(), nullptr, 0);
    if (!journal.call("image-size", size)) return;
    journal.value("size", size);
    std::vector<std::byte> image(static_cast<std::size_t>(size));
    if (journal.call("image", H5Fget_file_image(handle->id.get(), image.data(), image.size())))
        journal.digest("bytes", image);
}

// A program may ask for the descriptor and read the file through it.
void raw_descriptor(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr || program.file_of(*handle).driver > Driver::kPosix) return;
    Journal& journal = program.journal();
    journal.note(program.file_of(*handle).name);
    journal.call("flush", H5Fflush(handle->id.get(), H5F_SCOPE_GLOBAL));
    void* address = nullptr;
    if (!journal.call("handle", H5Fget_vfd_handle(handle->id.get(), H5P_DEFAULT, &address)) || address == nullptr)
        return;
    const int descriptor = *static_cast<int*>(address);
    struct ::stat status{};
    if (::fstat(descriptor, &status) != 0) return journal.value("size", -1);
    std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
    const auto got = ::pread(descriptor, bytes.data(), bytes.size(), 0);
    journal.value("size", got);
    journal.digest("bytes", bytes);
}

void open_wrongly(Program& program, Random& random) {
    Journal& journal = program.journal();
    std::ofstream("not-hdf5.h5") << "This is text, and no HDF5 file.\n";
    const char* name = random.pick({"missing.h5", "no-such-directory/a.h5", "not-hdf5.h5", ".", ""});
    journal.note(name);
    const Id opened(H5Fopen(name, random.chance(50) ? H5F_ACC_RDWR : H5F_ACC_RDONLY, H5P_DEFAULT));
    journal.call("open", opened.get());
    const Id created(H5Fcreate(random.pick({"not-hdf5.h5", "no-such-directory/a.h5", "."}), H5F_ACC_EXCL, H5P_DEFAULT,
                               H5P_DEFAULT));
    journal.call("create", created.get());
    journal.value("accessible", H5Fis_accessible(name, H5P_DEFAULT));
    const FileState& file = random.pick(program.files());
    std::string text;
    const Id access = random_file_access(file.driver, random, text);
    journal.value("accessible", H5Fis_accessible(file.name.c_str(), access.get()));
}

bool plain(const FileState& file) { return file.driver <= Driver::kStandardIo; }

// Between two runs people rename, copy and delete files.
void rearrange_closed_files(Program& program, Random& random) {
    if (!close_everything(program)) return;
    auto& from = random.pick(program.files());
    auto& to = random.pick(program.files());
    if (&from != &to && from.created && plain(from) && plain(to)) {
        const bool keep = random.chance(50);
        program.journal().note(from.name + (keep ? " copied to " : " renamed to ") + to.name);
        std::error_code problem;
        if (keep)
            std::filesystem::copy_file(from.name, to.name, std::filesystem::copy_options::overwrite_existing, problem);
        else std::filesystem::rename(from.name, to.name, problem);
        program.journal().value("errno", problem.value());
        to.groups = from.groups;
        to.datasets = from.datasets;
        to.types = from.types;
        to.created = true;
        from.created = keep;
    } else if (random.chance(30) && from.created) {
        std::string text = from.name;
        const Id access = random_file_access(from.driver, random, text);
        program.journal().note(text);
        from.created = !program.journal().call("delete-file", H5Fdelete(from.name.c_str(), access.get()));
    }
    digest_directory(program);
    for (std::size_t i = 0; i < program.files().size(); ++i)
        if (program.files()[i].created) open_one(program, i, random, H5F_ACC_RDWR);
}

// The name goes, the open file stays.
// False on file systems like GlusterFS with shards, where even a native program cannot set the size of a file without
// a name.
bool files_outlive_their_names() {
    static const bool they_do = [] {
        const char* const name = "without-a-name";
        const int file = ::open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0) return false;
        struct stat state{};
        const bool right = ::unlink(name) == 0 && ::pwrite(file, name, 8, 0) == 8 && ::ftruncate(file, 4) == 0 &&
                           ::fstat(file, &state) == 0 && state.st_size == 4;
        ::close(file);
        return right;
    }();
    return they_do;
}

void unlink_open_file(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr || !plain(program.file_of(*handle)) || random.chance(50)) return;
    if (!files_outlive_their_names()) return;
    FileState& file = program.file_of(*handle);
    program.journal().note(file.name);
    program.journal().value("unlink", ::unlink(file.name.c_str()));
    file.created = false;
}

void mount(Program& program, Random& random) {
    auto& handles = program.handles();
    if (handles.size() < 2) return;
    Handle& parent = random.pick(handles);
    Handle& child = random.pick(handles);
    FileState& file = program.file_of(parent);
    const std::string at = random.pick(file.groups);
    Journal& journal = program.journal();
    journal.note(file.name + ":" + at + " <- " + program.file_of(child).name);
    if (!journal.call("mount", H5Fmount(parent.id.get(), at.c_str(), child.id.get(), H5P_DEFAULT))) return;
    if (!program.file_of(child).datasets.empty()) {
        const std::string path = at + "/" + random.pick(program.file_of(child).datasets);
        const Id dataset(H5Dopen2(parent.id.get(), path.c_str(), H5P_DEFAULT));
        if (journal.call("open", dataset.get())) {
            const Dims dims = extent_of(dataset.get());
            const Element element = Program::element_of(path);
            const Transfer transfer = random_transfer(dims, random, program.elements_max(element));
            program.read(dataset.get(), element, transfer);
        }
    }
    journal.call("unmount", H5Funmount(parent.id.get(), at.c_str()));
}

void start_swmr(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr || random.chance(40)) return;
    program.close_datasets(handle->file);   // HDF5 1.14 does not survive reopening some of them
    program.journal().note(program.file_of(*handle).name);
    program.journal().call("start-swmr", H5Fstart_swmr_write(handle->id.get()));
}

}   // namespace

void create_file(Program& program, Random& random) {
    if (program.handles().size() >= 5) return;
    std::size_t index = random.below(program.files().size());
    if (program.files()[index].created && random.chance(70)) index = (index + 1) % program.files().size();
    FileState& file = program.files()[index];
    const unsigned flags = random.chance(75) ? H5F_ACC_TRUNC : H5F_ACC_EXCL;
    std::string text = file.name + (flags == H5F_ACC_TRUNC ? " truncate" : " exclusive");
    const Id creation = random_file_creation(random, text), access = random_file_access(file.driver, random, text);
    program.journal().note(text);
    Id created(H5Fcreate(file.name.c_str(), flags, creation.get(), access.get()));
    if (!program.journal().call("create-file", created.get())) return;
    file.created = true;
    file.groups = {"/"};
    file.datasets.clear();
    file.types.clear();
    program.handles().push_back({std::move(created), index, true});
}

void open_file(Program& program, Random& random) {
    if (program.handles().size() >= 5) return;
    std::size_t index = random.below(program.files().size());
    for (std::size_t i = 0; i < 3 && !program.files()[index].created; ++i) index = (index + 1) % program.files().size();
    open_one(program, index, random,
             random.chance(65)   ? H5F_ACC_RDWR
             : random.chance(92) ? H5F_ACC_RDONLY
                                 : H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE);
}

std::vector<Operation> file_operations() {
    return {
        {"create_file", 5, create_file},
        {"open_file", 7, open_file},
        {"close_handle", 5, close_handle},
        {"close_all_and_look", 6, close_all_and_look},
        {"reopen", 6, reopen},
        {"flush", 9, flush},
        {"file_facts", 5, file_facts},
        {"file_image", 1, file_image},
        {"raw_descriptor", 1, raw_descriptor},
        {"open_wrongly", 2, open_wrongly},
        {"rearrange_closed_files", 2, rearrange_closed_files},
        {"unlink_open_file", 1, unlink_open_file},
        {"mount", 2, mount},
        {"start_swmr", 1, start_swmr},
    };
}

}   // namespace differential
