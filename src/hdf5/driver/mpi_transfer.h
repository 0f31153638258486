// Reads and writes the pieces of a transfer in a file of several ranks. Independent, but for writes with `together`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hdf5/driver/mpi_file.h"

namespace forebay::hdf5 {

// A vector call's arguments. From H5FD_MEM_NOLIST on the type repeats, from size 0 the size (manual, H5FDwrite_vector).
struct PieceVector {
    std::uint32_t count;
    const H5FD_mem_t* types;
    const haddr_t* addresses;
    const std::size_t* sizes;

    template <class Visit>
    bool for_each(const char* function, Visit&& visit) const {
        H5FD_mem_t type = H5FD_MEM_DRAW;
        std::size_t size = 0;
        bool same_type = false, same_size = false;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (!same_type && types[i] == H5FD_MEM_NOLIST) same_type = true;
            else if (!same_type) type = types[i];
            if (!same_size && i > 0 && sizes[i] == 0) same_size = true;
            else if (!same_size) size = sizes[i];
            if (!check_region(function, addresses[i], size)) return false;
            visit(i, type == H5FD_MEM_DRAW ? stage::ByteClass::kRaw : stage::ByteClass::kMetadata, size);
        }
        return true;
    }
};

[[nodiscard]] Status read_pieces(MpiFile& file, const PieceVector& vector, void* buffers[]);

// HDF5 writes metadata in collective calls, some on each rank. A failed rank would keep the others waiting, so the next
// flush or close reports the failure on all ranks. With `together` all ranks learn it at once.
[[nodiscard]] Status write_pieces(MpiFile& file, const PieceVector& vector, const void* const buffers[], bool together);

}   // namespace forebay::hdf5
