// A staging area whose process directories are listed just before another process changes them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "area/process.h"
#include "support/forwarding_directory.h"

namespace forebay::test {

class StaleArea final : public BorrowedDirectory {
  public:
    // Changes the names that a process directory lists.
    using Relist = std::function<Result<std::vector<std::string>>(std::vector<std::string> names)>;
    StaleArea(io::Directory& area, Relist relist) : BorrowedDirectory(area), relist_(std::move(relist)) {}
    // Adds names of files that are gone.
    StaleArea(io::Directory& area, std::vector<std::string> gone)
        : StaleArea(area, [gone = std::move(gone)](std::vector<std::string> names) {
              names.insert(names.end(), gone.begin(), gone.end());
              return Result<std::vector<std::string>>(std::move(names));
          }) {}

    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        auto directory = BorrowedDirectory::open_directory(name);
        if (!directory || !area::owner_of_directory(name)) return directory;
        return std::unique_ptr<io::Directory>(std::make_unique<Stale>(std::move(directory).value(), relist_));
    }

  private:
    class Stale final : public ForwardingDirectory {
      public:
        Stale(std::unique_ptr<io::Directory> directory, Relist relist)
            : ForwardingDirectory(std::move(directory)), relist_(std::move(relist)) {}
        Result<std::vector<std::string>> list() override {
            auto names = ForwardingDirectory::list();
            return names ? relist_(std::move(names).value()) : names;
        }

      private:
        const Relist relist_;
    };
    const Relist relist_;
};

}   // namespace forebay::test
