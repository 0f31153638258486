#include "hdf5/connector/async_calls.h"

#include <optional>
#include <utility>
#include <vector>

#include "hdf5/connector/dataset_bytes.h"
#include "hdf5/connector/dataset_questions.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

using stage::AsyncRequest;
using stage::AsyncRequests;
using stage::AtOnce;

constexpr unsigned kTypeDepthMax = 16;

DatasetBytes& bytes_of(Object& dataset) {
    if (dataset.bytes == nullptr) dataset.bytes = std::make_shared<DatasetBytes>(dataset);
    return *dataset.bytes;
}

// Returns true if the type's values are equal in file and memory, and hold no references.
bool is_plain(hid_t type, unsigned depth = 0) {
    if (depth > kTypeDepthMax) return false;
    const H5T_class_t kind = host().H5Tget_class(type);
    switch (kind) {
        case H5T_INTEGER:
        case H5T_FLOAT:
        case H5T_TIME:
        case H5T_BITFIELD:
        case H5T_OPAQUE:
        case H5T_ENUM: return true;
        case H5T_STRING: return host().H5Tis_variable_str(type) == 0;
        case H5T_ARRAY: {
            const Handle base(host().H5Tget_super(type), host().H5Tclose);
            return base && is_plain(base.id(), depth + 1);
        }
        case H5T_COMPOUND: {
            const int members = host().H5Tget_nmembers(type);
            for (int i = 0; i < members; ++i) {
                const Handle member(host().H5Tget_member_type(type, static_cast<unsigned>(i)), host().H5Tclose);
                if (!member || !is_plain(member.id(), depth + 1)) return false;
            }
            return members > 0;
        }
        default: return false;
    }
}

bool transforms(hid_t list) {
    const QuietErrors quiet;
    return list != *host().H5P_LST_DATASET_XFER_ID_g && host().H5Pget_data_transform(list, nullptr, 0) > 1;
}

std::optional<AtOnce> select(DatasetBytes::Selection& selection, hid_t own_space) {
    const auto points = host().H5Sget_select_npoints(selection.file);
    if (points <= 0 || points != host().H5Sget_select_npoints(selection.memory)) return AtOnce::kSelection;
    if (host().H5Sselect_valid(selection.file) <= 0 || host().H5Sselect_valid(selection.memory) <= 0)
        return AtOnce::kSelection;
    const int rank = host().H5Sget_simple_extent_ndims(own_space);
    std::vector<hsize_t> of_selection(static_cast<std::size_t>(std::max(rank, 0)));
    selection.dimensions = of_selection;
    if (rank < 0 || rank != host().H5Sget_simple_extent_ndims(selection.file) ||
        host().H5Sget_simple_extent_dims(own_space, selection.dimensions.data(), nullptr) < 0 ||
        host().H5Sget_simple_extent_dims(selection.file, of_selection.data(), nullptr) < 0 ||
        of_selection != selection.dimensions)
        return AtOnce::kSelection;
    return std::nullopt;
}

std::optional<AtOnce> add_dataset(const Transfer<void*>& read, std::size_t index,
                                  std::vector<stage::StagedFile::ReadPart>& pieces) {
    Object& dataset = *as_object(read.datasets[index]);
    DatasetBytes& bytes = bytes_of(dataset);
    if (!bytes.plain()) return AtOnce::kLayout;
    const QuietErrors quiet;
    const Handle type(ask(dataset, H5VL_DATASET_GET_TYPE), host().H5Tclose);
    if (!type || host().H5Tequal(type.id(), read.memory_types[index]) <= 0 || !is_plain(type.id()))
        return AtOnce::kConversion;
    const Handle space(ask(dataset, H5VL_DATASET_GET_SPACE), host().H5Sclose);
    DatasetBytes::Selection selection;
    selection.file = read.file_spaces[index] == H5S_ALL ? space.id() : read.file_spaces[index];
    selection.memory = read.memory_spaces[index] == H5S_ALL ? selection.file : read.memory_spaces[index];
    selection.element_bytes = host().H5Tget_size(type.id());
    constexpr hid_t kFirstRealSpace = 3;   // H5S_BLOCK and H5S_PLIST are none
    if (!space || selection.file < kFirstRealSpace || selection.memory < kFirstRealSpace ||
        read.buffers[index] == nullptr || selection.element_bytes == 0)
        return AtOnce::kSelection;
    if (const auto why = select(selection, space.id())) return why;
    if (const auto why = bytes.settle(dataset)) return why;
    return bytes.add_pieces(dataset, selection, static_cast<std::byte*>(read.buffers[index]), pieces);
}

std::shared_ptr<OpenFile> only_file(std::size_t count, void* const datasets[]) {
    std::shared_ptr<OpenFile> file;
    for (std::size_t i = 0; i < count; ++i) {
        const auto& own = bytes_of(*as_object(datasets[i])).file();
        if (own == nullptr || (file != nullptr && file->file != own->file)) return nullptr;
        file = own;
    }
    return file;
}

std::optional<AtOnce> find_pieces(const Transfer<void*>& read, const OpenFile* file,
                                  std::vector<stage::StagedFile::ReadPart>& pieces) {
    if (file == nullptr || file->file == nullptr) return AtOnce::kFile;
    if (file->with_mpi && is_collective(read.list)) return AtOnce::kCollective;
    if (transforms(read.list)) return AtOnce::kConversion;
    for (std::size_t i = 0; i < read.count; ++i)
        if (const auto why = add_dataset(read, i, pieces)) return why;
    return std::nullopt;
}

void await_reads(file::ProgramFile& file) noexcept {
    file.engine().async_requests().await_reads(file.staged(), {0, kOffsetMax});
}

}   // namespace

std::shared_ptr<AsyncRequest> begin_read(const Transfer<void*>& read) {
    if (read.count == 0) return nullptr;
    for (std::size_t i = 0; i < read.count; ++i)
        if (as_object(read.datasets[i])->under == nullptr) return nullptr;
    const std::shared_ptr<OpenFile> file = only_file(read.count, read.datasets);
    std::vector<stage::StagedFile::ReadPart> pieces;
    if (const auto why = find_pieces(read, file.get(), pieces)) {
        if (file != nullptr && file->file != nullptr) file->file->engine().async_requests().count(*why);
        else if (const auto engine = Session::get().engine()) engine->async_requests().count(*why);
        return nullptr;
    }
    file::ProgramFile& target = *file->file;
    auto begun = target.engine().async_requests().read(target.staged().shared_from_this(), std::move(pieces));
    return begun ? std::move(begun).value() : nullptr;
}

void end_reads_of(const Object& dataset) noexcept {
    if (dataset.bytes == nullptr) return;   // none of its reads was asynchronous
    const std::shared_ptr<OpenFile>& file = dataset.bytes->file();
    if (file != nullptr && file->file != nullptr) await_reads(*file->file);
}

void end_reads_before_closing(const Object& dataset) noexcept {
    if (dataset.bytes == nullptr) return;
    if (const auto& file = dataset.bytes->file(); file == nullptr || !file->closes_at_once) end_reads_of(dataset);
}

void end_reads_of_file(const Object& file) noexcept {
    const std::shared_ptr<OpenFile>& own = file.origin->file;
    if (own != nullptr && own->file != nullptr) await_reads(*own->file);
}

}   // namespace forebay::hdf5
