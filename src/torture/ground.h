// Where `forebay torture` takes place: a folder of its own in the staging directory, and one beside the files.
#pragma once

#include <string>

#include "base/status.h"
#include "torture/killable.h"

namespace forebay::torture {

// Both folders are removed when this is destroyed, unless they are kept as evidence.
class Ground {
  public:
    Ground() = default;
    ~Ground();
    Ground(const Ground&) = delete;
    Ground& operator=(const Ground&) = delete;

    // The message of a failure names the option by which the directory was given: `nls_origin`, or --target.
    [[nodiscard]] Status open(const std::string& nls, const std::string& nls_origin, const std::string& target);
    void keep() noexcept { kept_ = true; }

    [[nodiscard]] const std::string& nls() const noexcept { return nls_; }
    [[nodiscard]] const std::string& folder() const noexcept { return target_; }
    [[nodiscard]] std::string file() const { return target_ + "/file"; }
    // What the last child said on standard error, or the last one of this name.
    [[nodiscard]] std::string words_file(const std::string& whose = "words") const { return nls_ + "/" + whose; }
    [[nodiscard]] std::string words(const std::string& whose = "words") const;

    // Makes the staging area empty and the file new, with these bytes.
    [[nodiscard]] Status prepare(const std::vector<std::byte>& content) const;
    [[nodiscard]] Result<std::vector<std::byte>> content() const;
    // Whether the staging directory is lost with the machine's power: durability=node is refused there.
    [[nodiscard]] bool in_memory() const noexcept { return in_memory_; }
    // Whether recovery has left a process directory.
    [[nodiscard]] bool anything_staged() const;

    Signals signals;
    std::string self;      // this executable
    std::string command;   // `forebay`, beside it

  private:
    std::string nls_, target_;
    bool kept_ = false, in_memory_ = false;
};

}   // namespace forebay::torture
