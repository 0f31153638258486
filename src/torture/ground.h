// The place of `forebay torture`: a folder in the staging directory, and one beside the files.
#pragma once

#include <string>

#include "base/status.h"
#include "torture/killable.h"

namespace forebay::torture {

// The destructor removes both folders, unless they are kept as evidence.
class Ground {
  public:
    Ground() = default;
    ~Ground();
    Ground(const Ground&) = delete;
    Ground& operator=(const Ground&) = delete;

    // Opens the folders. The message of a failure names the option of the directory: `nls_origin`, or --target.
    [[nodiscard]] Status open(const std::string& nls, const std::string& nls_origin, const std::string& target);
    void keep() noexcept { kept_ = true; }

    [[nodiscard]] const std::string& nls() const noexcept { return nls_; }
    [[nodiscard]] const std::string& folder() const noexcept { return target_; }
    [[nodiscard]] std::string file() const { return target_ + "/file"; }
    // The file with the standard error of the last child, or the last one of this name.
    [[nodiscard]] std::string words_file(const std::string& whose = "words") const { return nls_ + "/" + whose; }
    [[nodiscard]] std::string words(const std::string& whose = "words") const;

    // Empties the staging area, and makes the file anew with these bytes.
    [[nodiscard]] Status prepare(const std::vector<std::byte>& content) const;
    [[nodiscard]] Result<std::vector<std::byte>> content() const;
    // Returns true if a power loss erases the staging directory. Such a directory refuses durability=node.
    [[nodiscard]] bool in_memory() const noexcept { return in_memory_; }
    [[nodiscard]] bool anything_staged() const;

    Signals signals;
    std::string self;      // this executable
    std::string command;   // `forebay`, beside it

  private:
    std::string nls_, target_;
    bool kept_ = false, in_memory_ = false;
};

}   // namespace forebay::torture
