// Finds the bytes of a dataset in its file, if they lie there like in memory: contiguous, or in chunks without filters.
// It asks HDF5 once for facts that never change. After a call of the program that may have changed the dataset, it asks
// again for the chunks' places, and has HDF5 write the dataset's chunk cache and sieve buffer. In a file that is open
// read-only, only a refresh through any handle changes the dataset. Ownership: the connector's object owns it.
// Thread-safety: as HDF5's. Blocks as HDF5's metadata access does. Source: HDF5 reference manual, H5Dget_offset,
// H5Dchunk_iter, H5Dflush.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "hdf5/connector/object.h"
#include "hdf5/host/host.h"
#include "hdf5/open_file.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

class DatasetBytes {
  public:
    explicit DatasetBytes(const Object& dataset);

    // The attached file that holds the dataset; null if forebay does not have it, or several ranks write it.
    [[nodiscard]] const std::shared_ptr<OpenFile>& file() const noexcept { return file_; }
    [[nodiscard]] bool plain() const noexcept { return plain_; }
    // Has HDF5 pass the dataset's written bytes to the driver; nothing on success. kHeld: HDF5 cannot or must not.
    [[nodiscard]] std::optional<stage::AtOnce> settle(const Object& dataset);

    // One transfer. `dimensions` are those of the file dataspace, and equal the dataset's.
    struct Selection {
        hid_t memory = H5I_INVALID_HID, file = H5I_INVALID_HID;
        std::vector<hsize_t> dimensions;
        std::size_t element_bytes = 0;
    };
    // Adds the pieces of a read into `buffer`. Call `settle` first. Returns nothing if all pieces were added.
    [[nodiscard]] std::optional<stage::AtOnce> add_pieces(const Object& dataset, const Selection& selection,
                                                          std::byte* buffer,
                                                          std::vector<stage::StagedFile::ReadPart>& pieces);

  private:
    [[nodiscard]] std::optional<stage::AtOnce> find_chunks(const Object& dataset);
    struct Place {
        haddr_t address = HADDR_UNDEF;
        std::uint64_t size = 0;   // number of consecutive bytes there
    };
    [[nodiscard]] Place place_of_byte(const Selection& selection, std::uint64_t offset) const;
    [[nodiscard]] std::uint64_t moment() const noexcept;

    std::shared_ptr<OpenFile> file_;
    bool plain_ = false, chunked_ = false;
    std::vector<hsize_t> chunk_;
    // The moments of the last time, or 0.
    std::uint64_t settled_ = 0, chunks_found_ = 0;
    haddr_t address_ = HADDR_UNDEF;
    std::unordered_map<std::uint64_t, haddr_t> chunks_;
    std::vector<hsize_t> grid_;   // number of chunks in each dimension, by which `chunks_` is numbered
    bool too_many_chunks_ = false;
};

}   // namespace forebay::hdf5
