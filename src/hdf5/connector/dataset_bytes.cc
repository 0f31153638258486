#include "hdf5/connector/dataset_bytes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hdf5/connector/dataset_questions.h"
#include "hdf5/connector/object_file.h"
#include "hdf5/connector/selection_runs.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

using stage::AtOnce;

constexpr std::size_t kChunksMax = std::size_t{1} << 20;

// With MPI asking for an object's place may be collective, but asking for its file's name is not.
std::shared_ptr<OpenFile> find_file(const Object& dataset) {
    if (!dataset.origin->staged) return nullptr;
    if (dataset.origin->mpi) return file_by_name(dataset, H5I_DATASET);
    const auto place = place_of(dataset, H5I_DATASET);
    return place ? place->file : nullptr;
}

// Before 1.14.4 a chunk's address did not count the user block (release notes).
bool tells_where_chunks_are() { return host().major_version > 1 || host().minor_version > 14 || host().release >= 4; }

struct ChunkBytesWalk {
    std::unordered_map<std::uint64_t, haddr_t>& chunks;
    const std::vector<hsize_t>&chunk, &grid;
    bool failed = false, too_many = false;

    static int step(const hsize_t* offset, unsigned, haddr_t address, hsize_t, void* self) noexcept {
        auto& walk = *static_cast<ChunkBytesWalk*>(self);
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < walk.grid.size(); ++i) number = number * walk.grid[i] + offset[i] / walk.chunk[i];
        try {
            walk.chunks.insert_or_assign(number, address);
        } catch (...) {
            walk.failed = true;
        }
        walk.too_many = walk.chunks.size() > kChunksMax;
        return walk.failed || walk.too_many ? -1 : 0;
    }
};

}   // namespace

DatasetBytes::DatasetBytes(const Object& dataset) {
    const QuietErrors quiet;
    file_ = find_file(dataset);
    if (file_ == nullptr || file_->file == nullptr || file_->shared != nullptr ||
        file_->aside == ledger::AsideReason::kSwmr) {
        file_ = nullptr;
        return;
    }
    const hid_t creation = ask(dataset, H5VL_DATASET_GET_DCPL);
    if (creation < 0) return;
    const H5D_layout_t layout = host().H5Pget_layout(creation);
    chunked_ = layout == H5D_CHUNKED;
    plain_ = (layout == H5D_CONTIGUOUS || chunked_) && host().H5Pget_nfilters(creation) == 0 &&
             host().H5Pget_external_count(creation) == 0;
    if (chunked_) {
        std::array<hsize_t, H5S_MAX_RANK> dimensions{};
        const int rank = host().H5Pget_chunk(creation, H5S_MAX_RANK, dimensions.data());
        // The places of chunks are metadata, which ranks may read together.
        plain_ = plain_ && rank > 0 && !dataset.origin->mpi && tells_where_chunks_are();
        if (rank > 0) chunk_.assign(dimensions.begin(), dimensions.begin() + rank);
    }
    host().H5Pclose(creation);
}

// A positive number. While it is unchanged, HDF5 has the dataset as it was.
std::uint64_t DatasetBytes::moment() const noexcept {
    return 1 + (file_->writable ? CallScope::calls() : Session::get().refreshes());
}

std::optional<AtOnce> DatasetBytes::settle(const Object& dataset) {
    if (!file_->writable || settled_ == moment()) return std::nullopt;
    if (file_->holds_raw_data) return AtOnce::kHeld;
    const QuietErrors quiet;
    H5VL_dataset_specific_args_t args{};
    args.op_type = H5VL_DATASET_FLUSH;
    args.args.flush.dset_id = H5I_INVALID_HID;
    {
        const CallScope scope(CallKind::kObjectFlush);
        if (host().H5VLdataset_specific(dataset.under, dataset.origin->under_connector, &args,
                                        *host().H5P_LST_DATASET_XFER_ID_g, nullptr) < 0) {
            host().H5Eclear2(H5E_DEFAULT);
            return AtOnce::kHeld;
        }
    }
    settled_ = moment();
    return std::nullopt;
}

std::optional<AtOnce> DatasetBytes::find_chunks(const Object& dataset) {
    if (chunks_found_ == moment()) return too_many_chunks_ ? std::optional(AtOnce::kPieces) : std::nullopt;
    chunks_.clear();
    ChunkBytesWalk walk{chunks_, chunk_, grid_};
    H5VL_native_dataset_optional_args_t args{};
    args.chunk_iter.op = &ChunkBytesWalk::step;
    args.chunk_iter.op_data = &walk;
    const bool found = ask_native(dataset, H5VL_NATIVE_DATASET_CHUNK_ITER, args);
    too_many_chunks_ = walk.too_many;
    if (!found) {
        host().H5Eclear2(H5E_DEFAULT);
        chunks_.clear();
        if (!walk.too_many) return AtOnce::kUnallocated;
    }
    chunks_found_ = moment();
    return walk.too_many ? std::optional(AtOnce::kPieces) : std::nullopt;
}

DatasetBytes::Place DatasetBytes::place_of_byte(const Selection& selection, std::uint64_t offset) const {
    if (!chunked_) return {address_ + offset, UINT64_MAX - offset};
    const std::uint64_t element = selection.element_bytes, within = offset % element;
    std::array<hsize_t, H5S_MAX_RANK> at{};
    std::uint64_t left = offset / element;
    for (std::size_t i = chunk_.size(); i-- > 0; left /= selection.dimensions[i])
        at[i] = left % selection.dimensions[i];
    std::uint64_t number = 0, in_chunk = 0;
    for (std::size_t i = 0; i < chunk_.size(); ++i) {
        number = number * grid_[i] + at[i] / chunk_[i];
        in_chunk = in_chunk * chunk_[i] + at[i] % chunk_[i];
    }
    const auto chunk = chunks_.find(number);
    if (chunk == chunks_.end()) return {};
    const std::size_t last = chunk_.size() - 1;
    const std::uint64_t row = std::min(chunk_[last] - at[last] % chunk_[last], selection.dimensions[last] - at[last]);
    return {chunk->second + in_chunk * element + within, row * element - within};
}

std::optional<AtOnce> DatasetBytes::add_pieces(const Object& dataset, const Selection& selection, std::byte* buffer,
                                               std::vector<stage::StagedFile::ReadPart>& pieces) {
    const QuietErrors quiet;
    if (chunked_) {
        if (selection.dimensions.size() != chunk_.size()) return AtOnce::kSelection;
        std::vector<hsize_t> grid(chunk_.size());
        for (std::size_t i = 0; i < chunk_.size(); ++i) grid[i] = (selection.dimensions[i] + chunk_[i] - 1) / chunk_[i];
        if (grid != grid_) chunks_found_ = 0;
        grid_ = std::move(grid);
        if (const auto why = find_chunks(dataset)) return why;
    } else if (address_ = address_of(dataset); address_ == HADDR_UNDEF) {
        return AtOnce::kUnallocated;
    }
    SelectionRuns from(selection.file, selection.element_bytes), to(selection.memory, selection.element_bytes);
    for (;;) {
        const SelectionRuns::Run source = from.present(), target = to.present();
        if (source.size == 0 || target.size == 0)
            return from.failed() || to.failed() || source.size != target.size ? std::optional(AtOnce::kSelection)
                                                                              : std::nullopt;
        const Place place = place_of_byte(selection, source.offset);
        if (place.address == HADDR_UNDEF) return AtOnce::kUnallocated;
        const std::uint64_t size = std::min({source.size, target.size, place.size});
        const io::MutableBytes into{buffer + target.offset, size};
        if (!pieces.empty() && pieces.back().offset + pieces.back().into.size() == place.address &&
            pieces.back().into.data() + pieces.back().into.size() == into.data())
            pieces.back().into = {pieces.back().into.data(), pieces.back().into.size() + size};
        else pieces.push_back({place.address, into});
        if (pieces.size() > stage::AsyncRequests::kPiecesMax) return AtOnce::kPieces;
        from.advance(size);
        to.advance(size);
    }
}

}   // namespace forebay::hdf5
