// Where in its file the bytes of a dataset are, where they are there as in memory: contiguous, or in chunks without
// filters.
//
// HDF5 is asked once what never changes. It is asked again where a chunk is, and to write what it holds of the dataset
// itself (chunk cache, sieve buffer), after any call of the program that might have changed it.
//
// Ownership: belongs to the connector's object of the dataset. Thread-safety: as HDF5's. Blocks only as HDF5's reading
// and writing of metadata does. Source: HDF5 reference manual, H5Dget_offset, H5Dchunk_iter, H5Dflush.
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

    // The file that it lies in, attached to an engine; null: none of ours, or one that several ranks write.
    [[nodiscard]] const std::shared_ptr<OpenFile>& file() const noexcept { return file_; }
    // Whether its bytes are there one by one.
    [[nodiscard]] bool plain() const noexcept { return plain_; }
    // Everything that the program has written to it is with the driver. Nothing: done. kHeld: HDF5 cannot, or must not
    // be asked to.
    [[nodiscard]] std::optional<stage::AtOnce> settle(const Object& dataset);

    // One transfer. `dimensions`: of the file dataspace, which are the dataset's.
    struct Selection {
        hid_t memory = H5I_INVALID_HID, file = H5I_INVALID_HID;
        std::vector<hsize_t> dimensions;
        std::size_t element_bytes = 0;
    };
    // Adds the pieces that a read into `buffer` consists of. Settled before. Nothing: that is all of it.
    [[nodiscard]] std::optional<stage::AtOnce> add_pieces(const Object& dataset, const Selection& selection,
                                                          std::byte* buffer,
                                                          std::vector<stage::StagedFile::ReadPart>& pieces);

  private:
    [[nodiscard]] std::optional<stage::AtOnce> find_chunks(const Object& dataset);
    struct Place {
        haddr_t address = HADDR_UNDEF;
        std::uint64_t size = 0;   // so many bytes lie there one after the other
    };
    [[nodiscard]] Place place_of_byte(const Selection& selection, std::uint64_t offset) const;
    [[nodiscard]] bool is_current(std::uint64_t since) const noexcept;

    std::shared_ptr<OpenFile> file_;
    bool plain_ = false, chunked_ = false;
    std::vector<hsize_t> chunk_;   // its dimensions
    // Of these calls of the program (CallScope::calls): 0 never.
    std::uint64_t settled_ = 0, chunks_found_ = 0;
    haddr_t address_ = HADDR_UNDEF;
    std::unordered_map<std::uint64_t, haddr_t> chunks_;
    std::vector<hsize_t> grid_;   // chunks in each dimension, that `chunks_` is numbered by
    bool too_many_chunks_ = false;
};

}   // namespace forebay::hdf5
