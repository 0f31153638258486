#include "hdf5/connector/transfer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/attempt.h"
#include "hdf5/connector/dataset_questions.h"
#include "hdf5/connector/object_file.h"
#include "hdf5/host/library_context.h"
#include "hdf5/open_files.h"

namespace forebay::hdf5 {

namespace {

// Functions of the library that are its own but not hidden: the mode of the current transfer, and its types for mpio.
constexpr const char* kGetTransferMode = "H5CX_get_io_xfer_mode";
constexpr const char* kGetTypes = "H5CX_get_mpi_coll_datatypes";
// H5D_XFER_IO_XFER_MODE_NAME, and its values (H5FDmpi.h; the type exists only with MPI).
constexpr const char* kTransferMode = "io_xfer_mode";
enum TransferMode : int { kIndependent = 0, kCollective = 1 };
// H5D_XFER_SELECTION_IO_MODE_NAME; the type exists only in later versions.
constexpr const char* kSelectionMode = "selection_io_mode";
enum SelectionMode : int { kSelectionAuto = 0, kSelectionOff = 1 };

// The types in memory and in the file. No MPI has larger handles.
using Types = std::array<std::uint64_t, 2>;

std::optional<Types> current_types() {
    using GetTypes = herr_t (*)(void*, void*);
    static const auto get = reinterpret_cast<GetTypes>(host().find_symbol(kGetTypes));
    Types types{};
    if (get == nullptr || get(&types[0], &types[1]) < 0) return std::nullopt;
    return types;
}

const std::optional<Types>& plain_types() {
    static const std::optional<Types> plain = current_types();
    return plain;
}

// Unknown facts count as filtered: the list stays as it is. The next call asks again.
DatasetFacts find_facts(const Object& dataset) {
    DatasetFacts facts;
    const auto place = place_of(dataset, H5I_DATASET);
    facts.known = place.has_value();
    if (place && place->file != nullptr) {
        facts.shared = place->file->shared;
        facts.with_mpi = place->file->with_mpi;
    }
    if (!facts.with_mpi) return facts;
    facts.filtered = true;
    const hid_t creation = ask(dataset, H5VL_DATASET_GET_DCPL);
    const hid_t space = ask(dataset, H5VL_DATASET_GET_SPACE);
    facts.known = creation >= 0 && space >= 0;
    if (creation >= 0) {
        const H5D_layout_t layout = host().H5Pget_layout(creation);
        facts.filtered = host().H5Pget_nfilters(creation) != 0;
        facts.never_collective = layout == H5D_COMPACT || layout == H5D_VIRTUAL ||
                                 host().H5Pget_external_count(creation) > 0;
        host().H5Pclose(creation);
    }
    if (space >= 0) {
        facts.never_collective = facts.never_collective || host().H5Sget_simple_extent_type(space) == H5S_NULL;
        host().H5Sclose(space);
    }
    return facts;
}

bool without_selection_io(hid_t transfer) {
    SelectionMode mode = kSelectionAuto;
    const QuietErrors quiet;
    return host().H5Pexist(transfer, kSelectionMode) > 0 && host().H5Pget(transfer, kSelectionMode, &mode) >= 0 &&
           mode == kSelectionOff;
}

bool converts(const Object& dataset, hid_t memory_type, hid_t transfer) {
    const QuietErrors quiet;
    if (host().H5Pget_data_transform(transfer, nullptr, 0) > 1)   // a longer expression than "x" is no identity
        return true;
    const hid_t type = ask(dataset, H5VL_DATASET_GET_TYPE);
    if (type < 0) return false;
    const bool different = host().H5Tequal(type, memory_type) == 0;
    host().H5Tclose(type);
    return different;
}

// Without selection I/O, HDF5 does not convert or transform collectively.
bool any_converts(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t list) {
    for (std::size_t i = 0; i < count; ++i)
        if (converts(*as_object(datasets[i]), memory_types[i], list)) return true;
    return false;
}

}   // namespace

bool is_collective(hid_t transfer) {
    const QuietErrors quiet;
    TransferMode mode = kIndependent;
    return host().H5Pexist(transfer, kTransferMode) > 0 && host().H5Pget(transfer, kTransferMode, &mode) >= 0 &&
           mode == kCollective;
}

const DatasetFacts& facts_of(Object& dataset) {
    if (!dataset.facts || !dataset.facts->known) dataset.facts = find_facts(dataset);
    return *dataset.facts;
}

bool is_collective_now() {
    using GetTransferMode = herr_t (*)(TransferMode*);
    static const auto get = reinterpret_cast<GetTransferMode>(host().find_symbol(kGetTransferMode));
    TransferMode mode = kIndependent;
    return get != nullptr && get(&mode) >= 0 && mode == kCollective;
}

const char* obstacle_with_mpi() {
    if (host().find_symbol(kGetTransferMode) == nullptr || !LibraryContext::available())
        return "this HDF5 library hides the mode of its transfers";
    // Before 1.14.3 filtered chunks too, before 1.14.4 fill values of chunks: pull requests 3327 and 3826 of HDF5.
    if (host().major_version == 1 && (host().minor_version < 14 || (host().minor_version == 14 && host().release < 4)))
        return "HDF5 before 1.14.4 describes fill values by MPI types, which only its own driver understands";
    return nullptr;
}

void remember_plain_types() { (void)plain_types(); }

bool is_described_by_types(std::size_t size_bytes) {
    if (!is_collective_now()) return false;
    // A rank without pieces has plain types and no bytes; no other piece is empty.
    return size_bytes == 0 || !plain_types() || current_types() != plain_types();
}

bool TransferWay::any(Part what) const noexcept { return std::ranges::find(parts, what) != parts.end(); }

TransferWay way_of(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t list) {
    TransferWay way;
    if (count == 0 || !OpenFiles::get().any_with_mpi() || !is_collective(list)) return way;
    bool filtered = false, unfiltered = false, never = false;
    file::SharedFile* file = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        const DatasetFacts& facts = facts_of(*as_object(datasets[i]));
        if (!facts.with_mpi) return way;   // mpio's file, or a serial one, which HDF5 refuses
        file = facts.shared.get();
        filtered = filtered || facts.filtered;
        unfiltered = unfiltered || !facts.filtered;
        never = never || facts.never_collective;
    }
    // One rank's arguments decide for all, like in HDF5. Filters prevent selection I/O. Reads have no order.
    if (file != nullptr && (never || unfiltered)) {
        const bool mine = never || ((filtered || without_selection_io(list)) &&
                                    any_converts(count, datasets, memory_types, list));
        const auto anybody = file->any(mine);
        if (!anybody) {
            push_error("transfer", host().H5E_IO_g, host().H5E_CANTINIT_g, anybody.status());
            way.failed = true;
            return way;
        }
        never = anybody.value();
        if (!never) way.together = file;
    }
    if (never) return way;
    if (filtered) way.kind = CallKind::kOther;
    if (!attempt([&] {
            way.parts.reserve(count);
            return Status::ok();
        })) {
        push_error("transfer", host().H5E_RESOURCE_g, host().H5E_NOSPACE_g, "out of memory");
        way.failed = true;
        return way;
    }
    for (std::size_t i = 0; i < count; ++i)
        way.parts.push_back(as_object(datasets[i])->facts->filtered ? TransferWay::Part::kProgramsList
                                                                    : TransferWay::Part::kIndependently);
    return way;
}

hid_t independent_copy(hid_t list) {
    const hid_t copy = host().H5Pcopy(list);
    const TransferMode mode = kIndependent;
    if (copy >= 0 && host().H5Pset(copy, kTransferMode, &mode) < 0) {
        host().H5Pclose(copy);
        return H5I_INVALID_HID;
    }
    return copy;
}

}   // namespace forebay::hdf5
