// Operations on stored chunks, past the filters and the chunk cache.
#include <algorithm>
#include <array>

#include "program.h"
#include "selection.h"

namespace differential {
namespace {

constexpr std::size_t kRankMax = 8;

// A chunk's first element, possibly of a chunk that was never written.
bool random_chunk(hid_t dataset, Random& random, Dims& offset) {
    const Id creation(H5Dget_create_plist(dataset));
    if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return false;
    std::array<hsize_t, kRankMax> chunk{};
    const int rank = H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
    const Dims dims = extent_of(dataset);
    for (int d = 0; d < rank; ++d) {
        const auto at = static_cast<std::size_t>(d);
        offset.push_back(dims[at] == 0 ? 0 : random.below(dims[at]) / chunk[at] * chunk[at]);
    }
    return rank > 0;
}

void read_chunk(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    Dims offset;
    hsize_t bytes = 0;
    Journal& journal = program.journal();
    if (random_chunk(dataset->id.get(), random, offset)) {
        journal.note(to_text(offset));
        if (journal.call("chunk-size", H5Dget_chunk_storage_size(dataset->id.get(), offset.data(), &bytes))) {
            journal.value("bytes", static_cast<std::int64_t>(bytes));
            std::vector<std::byte> stored(bytes);
            std::uint32_t filters = 0;
            if (journal.call("read-chunk",
                             H5Dread_chunk(dataset->id.get(), H5P_DEFAULT, offset.data(), &filters, stored.data())))
                journal.digest("chunk",
                               digest_bytes(owns_memory(dataset->element) ? std::span<std::byte>{} : std::span(stored),
                                            filters));
        }
    }
    program.done_with(dataset, random);
}

// Stores what was read at one place at another.
void copy_chunk(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    Dims from, to;
    Journal& journal = program.journal();
    const hid_t id = dataset->id.get();
    // (HDF5 1.14 stores chunks in files that are open for reading, and cannot close them then.)
    if (dataset->writable && random_chunk(id, random, from) && random_chunk(id, random, to)) {
        journal.note(to_text(from) + "->" + to_text(to));
        hsize_t bytes = 0;
        std::uint32_t filters = 0;
        if (journal.call("chunk-size", H5Dget_chunk_storage_size(id, from.data(), &bytes)) && bytes > 0) {
            std::vector<std::byte> stored(bytes);
            if (journal.call("read-chunk", H5Dread_chunk(id, H5P_DEFAULT, from.data(), &filters, stored.data())))
                journal.call("write-chunk", H5Dwrite_chunk(id, H5P_DEFAULT, filters, to.data(), bytes, stored.data()));
        }
    }
    program.done_with(dataset, random);
}

int note_chunk(const hsize_t*, unsigned filters, haddr_t address, hsize_t bytes, void* data) {
    auto& digest = *static_cast<std::uint64_t*>(data);
    digest = combine(combine(combine(digest, filters), address), bytes);
    return H5_ITER_CONT;
}

void list_chunks(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    Journal& journal = program.journal();
    hsize_t count = 0;
    if (journal.call("chunks", H5Dget_num_chunks(dataset->id.get(), H5S_ALL, &count))) {
        journal.value("count", static_cast<std::int64_t>(count));
        std::uint64_t digest = 0;
        if (journal.call("chunk-iterate", H5Dchunk_iter(dataset->id.get(), H5P_DEFAULT, note_chunk, &digest)))
            journal.digest("chunks", digest);
    }
    program.done_with(dataset, random);
}

}   // namespace

std::vector<Operation> chunk_operations() {
    return {{"read_chunk", 4, read_chunk}, {"copy_chunk", 3, copy_chunk}, {"list_chunks", 4, list_chunks}};
}

}   // namespace differential
