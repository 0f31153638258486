// A file that several staging servers write: each stripe of it has one of them, its home (docs/protocol.md, "Several
// servers"), and goes through a DrainFile of that one. So no single server has all of a file to write, and the pieces
// of a stripe meet at one place, whoever writes them.
//
// A stripe whose server is not there is written without one. Servers do not know of each other: what is lost with one
// is written again there, or without it, and the others go on.
//
// Ownership: the parts, closed with this. Thread-safety and blocking: as DrainFile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/forwarding_file.h"
#include "wire/drain_file.h"

namespace forebay::wire {

class StripedFile final : public io::ForwardingFile {
  public:
    struct Part {
        std::string server;                // as it is named
        std::unique_ptr<DrainFile> file;   // null: stripes of this one are written without it
    };
    // `file`: the file itself. `stripe_bytes`: as stripe_bytes_of.
    StripedFile(std::shared_ptr<io::File> file, std::vector<Part> parts, std::uint64_t inode,
                std::uint64_t stripe_bytes);

    // A multiple of what the file system likes to be written in (0: it names nothing), and as much as a server joins.
    [[nodiscard]] static std::uint64_t stripe_bytes_of(std::uint64_t liked);

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    io::FileTraits traits() override;
    Result<std::uint64_t> size() override;
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t offset, std::size_t length) override;
    Status sync() override;
    void count_served(std::atomic<std::uint64_t>& counter) noexcept override;
    Status leave() override;

  private:
    // Who writes the stripe of this byte, and how far it reaches.
    [[nodiscard]] io::File& home(std::uint64_t offset) const;
    [[nodiscard]] std::uint64_t left_of_stripe(std::uint64_t offset) const noexcept {
        return stripe_bytes_ - offset % stripe_bytes_;
    }

    const std::vector<Part> parts_;
    std::vector<std::string> servers_;
    const std::uint64_t inode_, stripe_bytes_;
    bool local_ = true;   // all servers see what this process sees
};

}   // namespace forebay::wire
